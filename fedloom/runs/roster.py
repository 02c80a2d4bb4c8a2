"""Roster: the client on whose examples each worker of a run over MPI trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fedloom.errors import require
from fedloom.selection import cohorts

if TYPE_CHECKING:
    from jaxtyping import Int

Roster = Callable[[int], np.ndarray]
"""Round → the client of each worker; -1 for a worker that does not take part."""


def roster(selection: str, sizes: Int[np.ndarray, " K"], workers: int, m: int, seed: int) -> Roster:
    """Return the function that gives each worker its client.

    With one worker for each client, worker k has the examples of client k, and takes part if the simulation would
    select client k. With fewer workers all take part: a round selects as many clients as there are workers.

    Args:
        selection: how clients are selected, a name in :data:`fedloom.selection.SELECTIONS`.
        sizes: the number of examples of each client.
        workers: the number of workers.
        m: the number of clients in a round, with one worker for each client.
        seed: the seed of the run.

    >>> clients = roster("round-robin", np.array([3, 9, 5]), workers=2, m=1, seed=0)
    >>> [clients(round).tolist() for round in range(3)]
    [[0, 1], [2, 0], [1, 2]]
    """
    users = len(sizes)
    require(1 <= workers <= users, "workers", f"between 1 and the number of users, {users:,}", workers)

    def selected(round: int, count: int) -> np.ndarray:
        cohort: np.ndarray = cohorts(selection, np.array([seed], np.uint32), np.array([round]), sizes, count)[0, 0]
        return cohort

    if workers < users:
        return lambda round: selected(round, workers)
    everyone = np.arange(users)
    return lambda round: np.where(np.isin(everyone, selected(round, m)), everyone, -1)
