"""Selection in passes: no client is selected twice until all have been selected.

Every pass is a new random order of all clients, and a round takes the next m. Where a round ends one pass and begins
the next, the order of the new pass is changed so that the round has m different clients: the clients that end the old
pass are moved behind those that the new pass gives to this round.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from fedloom.selection.random_order import shuffled

if TYPE_CHECKING:
    from jaxtyping import Int, UInt32

STRIDE = 64  # passes between two whose orders are found again, where an order depends on all before it


def once(
    seeds: UInt32[np.ndarray, " X"],
    rounds: Int[np.ndarray, " R"],
    sizes: Int[np.ndarray, " K"],
    m: int,
    count: int,
) -> Int[np.ndarray, "R X count"]:
    """Return the next m clients of the pass that a round is in, then the others in the order of that pass.

    The arguments are those of :class:`fedloom.selection.Selection`.
    """
    found = [[_in_round(int(seed), int(round), len(sizes), m, count) for seed in seeds] for round in rounds]
    return np.array(found, np.int32).reshape(len(rounds), len(seeds), count)


def _in_round(seed: int, round: int, clients: int, m: int, count: int) -> Int[np.ndarray, " count"]:
    number, place = divmod(round * m, clients)
    order = pass_order(seed, number, clients, m)
    cohort = order[place : place + m]
    if len(cohort) < m:
        cohort = np.concatenate([cohort, pass_order(seed, number + 1, clients, m)[: m - len(cohort)]])
    if count == m:
        return cohort
    others = np.roll(order, -place)
    return np.concatenate([cohort, others[~np.isin(others, cohort)]])[:count]


@lru_cache(maxsize=64)
def pass_order(seed: int, number: int, clients: int, m: int) -> Int[np.ndarray, " K"]:
    """Return the order of all clients in a pass.

    It depends on the clients that end the pass before, unless that pass ends with a round. If two rounds fit into a
    pass (2·m ≤ K), these are the end of the shuffle of that pass, and no earlier pass matters.

    Args:
        seed: the seed of the run.
        number: the number of the pass.
        clients: K, the number of clients.
        m: the number of clients in a round.
    """
    begins_with_round = number - number % (m // gcd(m, clients))  # the last pass up to this one that does
    if number == begins_with_round:
        return _shuffle(seed, number, clients)
    if 2 * m <= clients:
        first, order = number - 1, _shuffle(seed, number - 1, clients)
    else:
        first = max(begins_with_round, (number - 1) // STRIDE * STRIDE)
        order = pass_order(seed, first, clients, m)
    for later in range(first + 1, number + 1):
        order = _following(order, _shuffle(seed, later, clients), later * clients % m, m)
    return order


def _following(before: Int[np.ndarray, " K"], new: Int[np.ndarray, " K"], shared: int, m: int) -> Int[np.ndarray, " K"]:
    """Return the order of a pass from the order of the pass before, which gives ``shared`` clients to its first round.

    Args:
        before: the order of the pass before.
        new: the shuffle of the pass.
        shared: the number of clients that end the pass before in the round that begins this pass.
        m: the number of clients in a round.
    """
    begin = new[~np.isin(new, before[len(before) - shared :])][: m - shared]
    return np.concatenate([begin, new[~np.isin(new, begin)]])


def _shuffle(seed: int, number: int, clients: int) -> Int[np.ndarray, " K"]:
    order: np.ndarray = shuffled(np.array([seed], np.uint32), np.array([number]), clients, clients)[0, 0]
    return order
