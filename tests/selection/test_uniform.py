import numpy as np

from fedloom.selection import cohorts

EARLIER = [[[18, 45, 31, 19], [77, 48, 57, 56]], [[5, 47, 91, 53], [44, 25, 47, 42]]]
LAST_SEED = [[[357665, 608340, 305432]], [[918294, 824555, 675784]]]


def test_the_cohorts_of_earlier_versions() -> None:
    """The numbers were drawn before there were other ways to select clients."""
    found = cohorts("uniform", np.array([0, 7], np.uint32), np.array([0, 5]), np.ones(100, int), 4)
    assert found.tolist() == EARLIER
    found = cohorts("uniform", np.array([2**32 - 1], np.uint32), np.array([0, 5]), np.ones(10**6, int), 3)
    assert found.tolist() == LAST_SEED


def test_a_smaller_cohort_is_the_beginning_of_a_larger_one() -> None:
    few, many = (cohorts("uniform", np.array([3], np.uint32), np.arange(4), np.ones(9, int), m) for m in (2, 9))
    assert (many[..., :2] == few).all()
