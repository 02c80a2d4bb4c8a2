import numpy as np
import pytest

from fedloom.selection import cohorts, preference

ROUNDS = 4000


def test_frequencies_by_hand() -> None:
    """Of clients with 1, 2 and 5 examples, the first of two is client k with probability n_k / 8, and a pair without
    client k has the probability of both orders of the others.
    """
    sizes = np.array([1, 2, 5])
    found = cohorts("size", np.array([0], np.uint32), np.arange(ROUNDS), sizes, 2)[:, 0]
    first = np.bincount(found[:, 0], minlength=3) / ROUNDS
    assert first == pytest.approx(sizes / 8, abs=0.03)  # three standard deviations are 0.024
    share = sizes / 8
    without = [share[i] * share[j] * (1 / (1 - share[i]) + 1 / (1 - share[j])) for i, j in ((1, 2), (0, 2), (0, 1))]
    selected = np.bincount(found.ravel(), minlength=3) / ROUNDS
    assert selected == pytest.approx(1 - np.array(without), abs=0.03)


def test_clients_without_examples_come_last() -> None:
    sizes = np.array([0, 3, 0, 1])
    orders = [preference("size", 0, round, sizes, 2).tolist() for round in range(20)]
    assert all(set(order[:2]) == {1, 3} and set(order[2:]) == {0, 2} for order in orders)
    assert len({tuple(order[2:]) for order in orders}) == 2


def test_a_client_that_joins_changes_no_other_order() -> None:
    sizes = np.array([4, 9, 2, 7])
    before = preference("size", 1, 6, sizes, 2).tolist()
    after = preference("size", 1, 6, np.append(sizes, 5), 2).tolist()
    assert [client for client in after if client != 4] == before
