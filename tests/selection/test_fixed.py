import numpy as np

from fedloom.selection import cohorts

SIZES = np.ones(10, int)


def test_every_round_has_the_uniform_cohort_of_the_first() -> None:
    seeds = np.array([0, 1], np.uint32)
    found = cohorts("fixed", seeds, np.array([3, 0, 999]), SIZES, 4)
    first = cohorts("uniform", seeds, np.array([0]), SIZES, 4)
    assert (found == first).all()
    assert (found[0, 0] != found[0, 1]).any()
