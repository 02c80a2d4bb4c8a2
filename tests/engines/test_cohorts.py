import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.engines.cohorts import BLOCKS, NUMBERS, Cohorts
from fedloom.selection import SELECTIONS, cohorts

SEEDS = np.array([3, 2**32 - 1], np.uint32)


@given(first=st.integers(0, 1000), rounds=st.integers(0, 600), m=st.sampled_from([1, 3, NUMBERS // 4]))
@settings(max_examples=10, deadline=None)
def test_cohorts_are_those_drawn_one_by_one(first: int, rounds: int, m: int) -> None:
    sizes, rounds = np.ones(2 * m, np.int32), min(rounds, 3) if m > 3 else rounds
    found = Cohorts("uniform", SEEDS, sizes, m).of_rounds(first, rounds)
    assert found.shape == (rounds, 2, m)
    for at in {0, rounds // 2, rounds - 1} if rounds else ():
        assert (found[at] == cohorts("uniform", SEEDS, np.array([first + at]), sizes, m)[0]).all()


@pytest.mark.parametrize("selection", SELECTIONS)
def test_memory_is_bounded_and_cohorts_do_not_depend_on_it(selection: str) -> None:
    asked = Cohorts(selection, SEEDS, np.arange(1, 8), 3)
    once = asked.of_rounds(0, 2000)
    again = np.concatenate([asked.of_rounds(first, 250) for first in range(0, 2000, 250)])
    assert (once == again).all()
    assert len(asked.blocks) <= BLOCKS
