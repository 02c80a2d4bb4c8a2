"""Client: a participant that trains and judges by code of its own, in whatever library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.shuffle import shuffle

Weights = dict[str, np.ndarray]
"""A model's numbers by name."""


@dataclass(frozen=True)
class Broadcast:
    """What a client is sent.

    Arguments:
        weights: the model.
        round: the round's number, from 0 on.
        lr: the learning rate η of the round.
        epochs: E, how often to go through one's examples.
        batch_size: B; ``None`` is all of them as one batch.
        key: two numbers from which all random ones should come, so that the run can be repeated.
    """

    weights: Weights
    round: int
    lr: float
    epochs: int
    batch_size: int | None
    key: tuple[int, int]

    @property
    def seed(self) -> int:
        """One number for libraries that want one."""
        return (self.key[0] << 32 | self.key[1]) % (2**31 - 1)

    def batches(self, n: int) -> Iterator[np.ndarray]:
        """Which of n examples each step is to see, in the order in which the compiled engine takes them.

        >>> told = Broadcast({}, 0, 0.1, epochs=2, batch_size=2, key=(1, 2))
        >>> [len(rows) for rows in told.batches(5)]
        [2, 2, 1, 2, 2, 1]
        """
        key, size = jnp.array(self.key, jnp.uint32), self.batch_size or max(n, 1)
        for epoch in range(self.epochs):
            room = 1 << (n - 1).bit_length()
            order = np.arange(n) if self.batch_size is None else np.asarray(_order(room, n, key, epoch))[:n]
            for start in range(0, n, size):
                yield order[start : start + size]


@dataclass(frozen=True)
class Answer:
    """What a client sends back.

    Arguments:
        weights: the model after its work.
        examples: how many training examples it has.
    """

    weights: Weights
    examples: int


class Client(Protocol):
    """A participant with examples of its own."""

    def weights(self) -> Weights:
        """The model that a run begins with."""

    def fit(self, broadcast: Broadcast) -> Answer:
        """Train the model that was sent on one's training examples."""

    def evaluate(self, broadcast: Broadcast, part: str) -> dict[str, float]:
        """Sums over one's examples of a part: of each metric, and under ``count`` what they are out of."""


@partial(jax.jit, static_argnums=0)
def _order(room: int, n: int, key: jax.Array, epoch: int) -> jax.Array:
    """A permutation of 0 … n-1 in the first n places; few different lengths are compiled."""
    return shuffle(jnp.minimum(jnp.arange(room, dtype=jnp.int32), n - 1), jnp.asarray(n, jnp.int32), key, epoch)
