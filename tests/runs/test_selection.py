"""On whose examples workers train."""

import numpy as np
import pytest

from fedloom.engines.schedule import cohorts
from fedloom.errors import ArgumentError
from fedloom.runs.selection import lasts, roster

SIZES = np.array([3, 9, 5, 7, 1])


def test_all_is_everybody_or_the_cohort_of_the_round() -> None:
    assert roster("all", SIZES, 5, 5, seed=0)(7).tolist() == [0, 1, 2, 3, 4]
    drawn = np.asarray(cohorts(np.array([4], np.uint32), np.array([7], np.int32), np.int32(5), m=2))[0, 0]
    found = roster("all", SIZES, 5, 2, seed=4)(7)
    assert sorted(drawn) == np.flatnonzero(found >= 0).tolist()
    assert all(user in (-1, worker) for worker, user in enumerate(found))


def test_random_is_different_users_every_round_from_the_seed() -> None:
    users = roster("random", SIZES, 3, 3, seed=0)
    rounds = [users(round).tolist() for round in range(20)]
    assert all(len(set(chosen)) == 3 for chosen in rounds)
    assert len({tuple(chosen) for chosen in rounds}) > 5
    assert rounds == [roster("random", SIZES, 3, 3, seed=0)(round).tolist() for round in range(20)]


def test_size_is_the_largest_in_turn() -> None:
    users = roster("size", SIZES, 2, 2, seed=0)
    assert [users(round).tolist() for round in range(3)] == [[1, 3], [2, 0], [4, 1]]


def test_once_is_every_user_once() -> None:
    users = roster("once", SIZES, 2, 2, seed=0)
    found = np.concatenate([users(round) for round in range(lasts("once", 5, 2, 100))])
    assert sorted(found.tolist()) == [-1, 0, 1, 2, 3, 4]
    assert found[-1] == -1


@pytest.mark.parametrize(("selection", "workers", "message"), [
    ("all", 4, "workers must be as many as there are users, 5"),
    ("random", 6, "workers must be between 1 and the number of users, 5, but is 6"),
    ("some", 5, "selection must be one of all, once, random, size, but is 'some'"),
])  # fmt: skip
def test_what_cannot_be_selected(selection: str, workers: int, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        roster(selection, SIZES, workers, workers, seed=0)
