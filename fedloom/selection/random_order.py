"""Random orders of the clients, one for each round and seed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.keys import COHORT, stream
from fedloom.shuffle import shuffle, words

if TYPE_CHECKING:
    from jaxtyping import Array, Int, UInt32


def shuffled(
    seeds: UInt32[np.ndarray, " X"], rounds: Int[np.ndarray, " R"], clients: int, count: int
) -> Int[np.ndarray, "R X count"]:
    """Return the first ``count`` of all clients in the random order of each round and seed.

    Args:
        seeds: the seed of each order.
        rounds: the number of each round.
        clients: the number of clients.
        count: the number of clients to return.

    >>> sorted(shuffled(np.array([0], np.uint32), np.array([5]), clients=4, count=4)[0, 0].tolist())
    [0, 1, 2, 3]
    """
    length = 1 << (count - 1).bit_length()  # lengths are rounded up to powers of two, so that few are compiled
    drawn = _drawn(length, seeds, rounds.astype(np.int32), np.int32(clients))
    return np.asarray(drawn)[..., :count]


@partial(jax.jit, static_argnames="length")
def _drawn(
    length: int, seeds: UInt32[Array, " X"], rounds: Int[Array, " R"], clients: Int[Array, ""]
) -> Int[Array, "R X length"]:
    places = jnp.minimum(jnp.arange(length, dtype=jnp.int32), clients - 1)

    def draw(round: Int[Array, ""], seed: UInt32[Array, ""]) -> Int[Array, " length"]:
        return shuffle(places, clients, words(stream(seed, COHORT, round)))

    return jax.vmap(lambda round: jax.vmap(lambda seed: draw(round, seed))(seeds))(rounds)
