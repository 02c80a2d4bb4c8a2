"""Compare the runs of one layout with the golden values."""

import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import jax
import pytest
from golden.cases import CASES, LAYOUTS, train
from golden.machine import machine
from golden.programs import compiled_programs, cost, hashes, written_programs
from golden.record import differences, record

FOLDER = Path(__file__).parent
VALUES, PROGRAMS = FOLDER / "values.json", FOLDER / "programs.json"
NEAR = 1e-6  # the tolerance on another machine
SLACK = 0.03  # by how much costs may differ
ELSEWHERE = "golden values were made on another processor or with other libraries"


EVERY_TIME = ("fedavg", "scaffold", "ditto", "fedrep", "ifca", "personalised", "dpa-sgd-mtl", "push-sum", "server adam",
              "median", "whole sets as batches")  # fmt: skip
"""The cases of which layouts that resemble others run every time; the rest of them is slow."""


def cells(*layouts: str, whole: str = "") -> list[Any]:
    """Return the cases in some layouts, as parameters of a test: (layout, name).

    Args:
        layouts: the layouts in which some cases run every time.
        whole: a layout in which all of them do.
    """
    found = [pytest.param(whole, name) for name in CASES] if whole else []
    marks = {name: () if name in EVERY_TIME else pytest.mark.slow for name in CASES}
    return found + [pytest.param(layout, name, marks=mark) for layout in layouts for name, mark in marks.items()]


@cache
def stored(file: Path) -> dict[str, Any]:
    """Return the content of a golden file."""
    content: dict[str, Any] = json.loads(file.read_text())
    return content


@cache
def measured(name: str, layout: str) -> dict[str, Any]:
    """Run a case in a layout and return its numbers and its cost."""
    with compiled_programs() as executables:
        runs = train(CASES[name], LAYOUTS[layout])
    return {"experiments": [record(run) for run in runs], "cost": cost(executables)}


def program_hashes(name: str, layout: str) -> dict[str, str]:
    """Run a case in a layout and return the hashes of its programs."""
    jax.clear_caches()
    with written_programs() as texts:
        train(CASES[name], LAYOUTS[layout])
    return hashes(texts)


def is_same_machine(file: Path) -> bool:
    """Return whether a golden file was made on this processor and with these libraries."""
    return bool(stored(file)["machine"] == machine())


def skip_unless_possible(layout: str) -> None:
    """Skip the test where JAX computes on an accelerator or has too few devices."""
    if jax.devices()[0].platform != "cpu":
        pytest.skip("golden values are those of a CPU")
    if LAYOUTS[layout].engine["devices"] > len(jax.devices()):
        pytest.skip("this layout needs two CPU cores")


def check_numbers(name: str, layout: str) -> None:
    """Fail unless a case gives its golden numbers in a layout: all bits, or nearly on another machine."""
    skip_unless_possible(layout)
    tolerance = 0.0
    if not is_same_machine(VALUES):
        tolerance = NEAR
        warnings.warn(f"{ELSEWHERE}; numbers are compared to {NEAR:g} instead of bit for bit", stacklevel=2)
    golden = stored(VALUES)["cases"][name][layout]["experiments"]
    found = measured(name, layout)["experiments"]
    told = [
        f"experiment {i}, {sentence}"
        for i, pair in enumerate(zip(found, golden, strict=True))
        for sentence in differences(*pair, tolerance)
    ]
    assert not told, f"{name} with {layout} gives other numbers: " + "; ".join(told)


def check_cost(name: str, layout: str) -> None:
    """Fail unless the round's program of a case costs what it did, to three per cent."""
    skip_unless_possible(layout)
    if not is_same_machine(VALUES):
        pytest.skip(f"{ELSEWHERE}; costs are not compared")
    golden, found = stored(VALUES)["cases"][name][layout]["cost"], measured(name, layout)["cost"]
    if golden is None:
        pytest.skip("this layout compiles the program of another layout; its cost is compared there")
    if found is None:
        pytest.skip("this version of JAX does not show what it compiles; costs are not compared")
    told = [f"{what} {found[what]:,.0f}, golden {golden[what]:,.0f}"
            for what in golden if abs(found[what] - golden[what]) > SLACK * golden[what]]  # fmt: skip
    assert not told, f"a round of {name} with {layout} has another cost: " + "; ".join(told)
