"""Selection: on whose examples each worker trains in a round."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedloom.engines.schedule import planned
from fedloom.errors import choose, require

SELECTIONS = {
    "all": "worker k has the examples of user k",
    "random": "different users every round, at random",
    "size": "the users with the most examples first, and on in turn",
    "once": "every user once, in a random order; then the run ends",
}


def roster(selection: str, sizes: np.ndarray, workers: int, m: int, seed: int) -> Callable[[int], np.ndarray]:
    """Round → the user of each worker, -1 where it has none.

    Arguments:
        selection: one of :data:`SELECTIONS`.
        sizes: how many examples each user has.
        workers: how many workers there are; with ``all`` one a user.
        m: with ``all``, how many take part in a round.

    >>> largest = roster("size", np.array([3, 9, 5, 7]), workers=2, m=2, seed=0)
    >>> [largest(round).tolist() for round in range(3)]
    [[1, 3], [2, 0], [1, 3]]
    """
    users = len(sizes)
    choose("selection", selection, SELECTIONS)
    if selection == "all":
        require(workers == users, "workers", f"as many as there are users, {users:,} (or select them)", workers)
    require(1 <= workers <= users, "workers", f"between 1 and the number of users, {users:,}", workers)
    seeds = np.array([seed], np.uint32)
    drawn = lambda round, m: planned(seeds, round, 1, users, m)[0, 0]  # noqa: E731

    def present(round: int) -> np.ndarray:
        return np.where(np.isin(np.arange(users), drawn(round, m)), np.arange(users), -1)

    if selection == "all":
        return present if m < users else lambda round: np.arange(users)  # noqa: ARG005
    if selection == "random":
        return lambda round: drawn(round, workers)
    order = np.argsort(-sizes, kind="stable") if selection == "size" else drawn(0, users)
    places = lambda round: round * workers + np.arange(workers)  # noqa: E731
    if selection == "size":
        return lambda round: order[places(round) % users]
    return lambda round: np.where(places(round) < users, order[np.minimum(places(round), users - 1)], -1)


def lasts(selection: str, users: int, workers: int, rounds: int) -> int:
    """How many rounds a run has at most.

    >>> lasts("once", users=10, workers=4, rounds=100), lasts("random", users=10, workers=4, rounds=100)
    (3, 100)
    """
    return min(rounds, -(-users // workers)) if selection == "once" else rounds
