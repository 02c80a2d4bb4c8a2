"""Selection: the clients that take part in a round, the same on every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedloom.errors import choose, require
from fedloom.selection.fixed import fixed
from fedloom.selection.once import once
from fedloom.selection.round_robin import round_robin
from fedloom.selection.size import size
from fedloom.selection.uniform import uniform

if TYPE_CHECKING:
    from jaxtyping import Int, UInt32


class Selection(Protocol):
    """A way to select clients: a pure function of the seed and the number of the round."""

    def __call__(
        self,
        seeds: UInt32[np.ndarray, " X"],
        rounds: Int[np.ndarray, " R"],
        sizes: Int[np.ndarray, " K"],
        m: int,
        count: int,
    ) -> Int[np.ndarray, "R X count"]:
        """Return the first clients in the order in which each round of each experiment prefers them.

        Args:
            seeds: the seed of each experiment.
            rounds: the numbers of the rounds.
            sizes: n_k, the number of training examples of each client.
            m: the number of clients in a round. The first m of the order are the round's cohort.
            count: the number of clients to return.
        """


SELECTIONS: dict[str, Selection] = {
    "uniform": uniform,
    "fixed": fixed,
    "size": size,
    "round-robin": round_robin,
    "once": once,
}
"""Name → the way to select clients."""


def cohorts(
    selection: str,
    seeds: UInt32[np.ndarray, " X"],
    rounds: Int[np.ndarray, " R"],
    sizes: Int[np.ndarray, " K"],
    m: int,
) -> Int[np.ndarray, "R X m"]:
    """Return m different clients for each round of each experiment.

    Args:
        selection: a name in :data:`SELECTIONS`.
        seeds: the seed of each experiment.
        rounds: the numbers of the rounds.
        sizes: n_k, the number of training examples of each client.
        m: the number of clients in a round.
    """
    return SELECTIONS[selection](seeds, rounds, sizes, m, m)


def preference(selection: str, seed: int, round: int, sizes: Int[np.ndarray, " K"], m: int) -> Int[np.ndarray, " K"]:
    """Return all clients in the order in which a round prefers them; the first m are its cohort.

    Args:
        selection: a name in :data:`SELECTIONS`.
        seed: the seed of the run.
        round: the number of the round.
        sizes: n_k, the number of training examples of each client.
        m: the number of clients in a round.
    """
    seeds, rounds = np.array([seed], np.uint32), np.array([round])
    order: np.ndarray = SELECTIONS[selection](seeds, rounds, sizes, m, len(sizes))[0, 0]
    return order


def check_selection(selection: str, fraction: float) -> None:
    """Raise an :class:`ArgumentError` unless there is such a selection and it has an effect."""
    choose("selection", selection, SELECTIONS)
    has_effect = selection == "uniform" or fraction < 1
    require(has_effect, "selection", "left alone with fraction 1, with which all clients take part", selection)


def describe_selection(selection: str) -> dict[str, Any]:
    """Return the selection by name, or nothing for the usual one, which older runs do not name."""
    return {} if selection == "uniform" else {"selection": selection}
