"""Programs are compared only when asked for, by ``make golden-programs``: pure renames leave them as they are."""

import os

import pytest
from golden.cases import CASES
from golden.gate import ELSEWHERE, PROGRAMS, is_same_machine, program_hashes, skip_unless_possible, stored
from golden.programs import without_names

ASKED = "GOLDEN_PROGRAMS" in os.environ
LAYOUTS = ("one lane", "three lanes")


@pytest.mark.skipif(not ASKED, reason="programs are compared by make golden-programs")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_programs_are_the_same_but_for_names(name: str, layout: str) -> None:
    skip_unless_possible(layout)
    if not is_same_machine(PROGRAMS):
        pytest.skip(f"{ELSEWHERE}; programs are not compared")
    found, golden = program_hashes(name, layout), stored(PROGRAMS)["cases"][name][layout]
    assert found["round"] == golden["round"], f"{name} with {layout} has another program for a round"
    assert found["all"] == golden["all"], f"{name} with {layout} has other programs beside that of a round"


def test_names_are_no_part_of_a_program() -> None:
    text = "module @jit_{0} {{\n  func.func public @main(%arg0: tensor<2xf32>) -> (tensor<2xf32> "
    text += '{{jax.result_info = "{0}"}}) {{\n    %0 = call @{0}(%arg0) : (tensor<2xf32>)\n  }}\n'
    text += "  func.func private @{0}(%arg0: tensor<2xf32>) {{ {1} }}\n}}"
    assert without_names(text.format("advance", "add")) == without_names(text.format("move", "add"))
    assert without_names(text.format("advance", "add")) != without_names(text.format("advance", "multiply"))
