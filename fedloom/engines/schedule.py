"""Schedule: who takes part in a round, and on which device each of them is computed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.shuffle import shuffle, words

if TYPE_CHECKING:
    from jaxtyping import Array, Int, Key, UInt32

INIT, COHORT, CLIENT, PEERS, END = range(5)  # what a seed's random numbers are for


def stream(seed: Int[Array, ""] | int, purpose: int, round: Int[Array, ""] | int = 0) -> Key[Array, ""]:
    """The random key of a purpose in a round; every random number of a run comes from one of these."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), purpose), round)


def client_key(
    seed: Int[Array, ""], round: Int[Array, ""], client: Int[Array, ""], purpose: int = CLIENT
) -> Key[Array, ""]:
    """Return a client's random key in a round; it does not depend on where and beside whom the client is computed.

    Args:
        seed: the seed of the run.
        round: the number of the round.
        client: the number of the client.
        purpose: ``CLIENT`` for the steps of local work, ``END`` for the rest of it.
    """
    return jax.random.fold_in(stream(seed, purpose, round), client)


@partial(jax.jit, static_argnames="m")
def cohorts(
    seeds: UInt32[Array, " members"], rounds: Int[Array, " rounds"], clients: Int[Array, ""], *, m: int
) -> Int[Array, "rounds members m"]:
    """M different clients for each round of each experiment: the first m of a shuffle of all of them."""

    def draw(round: Int[Array, ""], seed: UInt32[Array, ""]) -> Int[Array, " m"]:
        key = words(stream(seed, COHORT, round))
        return shuffle(jnp.arange(m, dtype=jnp.int32), clients, key)

    return jax.vmap(lambda r: jax.vmap(lambda s: draw(r, s))(seeds))(rounds)


def deal(cohort: np.ndarray, steps: np.ndarray, devices: int) -> np.ndarray:
    """Deal each cohort to devices, the longest work first, each to the device with the least so far.

    Arguments:
        cohort: client numbers, shape (…, m).
        steps: how many steps each of them takes, same shape.

    Returns:
        Client numbers, shape (…, devices, m): a device's clients from the longest to the shortest, then -1.

    >>> deal(np.array([[7, 8, 9]]), np.array([[1, 5, 3]]), devices=2).tolist()
    [[[8, -1, -1], [9, 7, -1]]]
    """
    *lead, m = cohort.shape
    order = np.argsort(-steps, axis=-1, kind="stable").reshape(-1, m)
    flat = np.take_along_axis(cohort.reshape(-1, m), order, axis=1)
    work = np.take_along_axis(steps.reshape(-1, m), order, axis=1)
    if devices == 1:
        return flat.reshape(*lead, 1, m)
    dealt = np.full((len(flat), devices, m), -1, np.int32)
    load, filled = np.zeros((len(flat), devices), np.int64), np.zeros((len(flat), devices), np.int64)
    rows = np.arange(len(flat))
    for i in range(m):
        least = load == load.min(axis=1, keepdims=True)
        to = np.argmin(np.where(least, filled, m + 1), axis=1)  # with the least work, the one with the fewest clients
        dealt[rows, to, filled[rows, to]] = flat[:, i]
        filled[rows, to] += 1
        load[rows, to] += work[:, i]
    return dealt.reshape(*lead, devices, m)
