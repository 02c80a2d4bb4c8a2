import numpy as np

from fedloom.selection import cohorts, preference


def test_cohorts_by_hand() -> None:
    found = cohorts("round-robin", np.array([0, 5], np.uint32), np.array([0, 1, 2, 4]), np.ones(5), 3)
    assert found[:, 0].tolist() == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [2, 3, 4]]
    assert (found[:, 0] == found[:, 1]).all()


def test_the_others_follow_in_order() -> None:
    assert preference("round-robin", 0, 1, np.ones(5), 2).tolist() == [2, 3, 4, 0, 1]


def test_many_rounds_of_many_clients_do_not_overflow() -> None:
    rounds = np.array([2**31 - 1])
    [[[first]]] = cohorts("round-robin", np.array([0], np.uint32), rounds, np.ones(10**6), 10**5)[..., :1]
    assert first == (2**31 - 1) * 10**5 % 10**6
