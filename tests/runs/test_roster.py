import numpy as np
import pytest

from fedloom.errors import ArgumentError
from fedloom.runs.roster import roster
from fedloom.selection import cohorts

SIZES = np.array([3, 9, 5, 7, 1])


def test_with_a_worker_for_every_client_the_cohort_takes_part() -> None:
    assert roster("uniform", SIZES, 5, 5, seed=0)(7).tolist() == [0, 1, 2, 3, 4]
    drawn = cohorts("uniform", np.array([4], np.uint32), np.array([7]), SIZES, 2)[0, 0]
    found = roster("uniform", SIZES, 5, 2, seed=4)(7)
    assert sorted(drawn) == np.flatnonzero(found >= 0).tolist()
    assert all(user in (-1, worker) for worker, user in enumerate(found))


def test_fewer_workers_all_take_part() -> None:
    users = roster("uniform", SIZES, 3, 1, seed=0)
    rounds = [users(round).tolist() for round in range(20)]
    assert all(len(set(chosen)) == 3 for chosen in rounds)
    assert len({tuple(chosen) for chosen in rounds}) > 5


@pytest.mark.parametrize("workers", [0, 6])
def test_workers_are_at_most_as_many_as_clients(workers: int) -> None:
    with pytest.raises(ArgumentError, match=f"workers must be between 1 and the number of users, 5, but is {workers}"):
        roster("uniform", SIZES, workers, 1, seed=0)
