"""Selection by size: clients with more examples are selected more often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.keys import COHORT, stream

if TYPE_CHECKING:
    from jaxtyping import Array, Int, UInt32

LATE = 100.0  # after all times of clients with examples: 53 random bits give times up to 37


def size(
    seeds: UInt32[np.ndarray, " X"],
    rounds: Int[np.ndarray, " R"],
    sizes: Int[np.ndarray, " K"],
    m: int,  # noqa: ARG001
    count: int,
) -> Int[np.ndarray, "R X count"]:
    """Draw clients one after another, each with a probability proportional to its number of examples, without
    replacement.

    Clients without examples come last. Every client k has a time t_k, exponentially distributed with rate n_k; the
    order of the times is the order of such draws (Efraimidis and Spirakis 2006).

    The arguments are those of :class:`fedloom.selection.Selection`.
    """
    found = [[_in_order(seed, int(round), sizes, count) for seed in seeds] for round in rounds]
    return np.array(found, np.int32).reshape(len(rounds), len(seeds), count)


def _in_order(seed: np.uint32, round: int, sizes: Int[np.ndarray, " K"], count: int) -> Int[np.ndarray, " count"]:
    drawn = np.random.default_rng(np.asarray(_key(jnp.uint32(seed), jnp.int32(round)))).random(len(sizes))
    times = np.where(sizes > 0, -np.log1p(-drawn) / np.maximum(sizes, 1), LATE + drawn)
    first = np.argpartition(times, count - 1)[:count]
    return first[np.argsort(times[first])]


@jax.jit
def _key(seed: UInt32[Array, ""], round: Int[Array, ""]) -> UInt32[Array, " words"]:
    return jax.random.key_data(stream(seed, COHORT, round))
