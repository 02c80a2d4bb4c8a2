"""Neighbours: every user averages with a few others only, drawn at random or nearest to it; for many users."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp

from fedloom.combine.replies import Reading, Replies
from fedloom.combine.weighting import Weighting, by_size
from fedloom.errors import choose, require
from fedloom.mixing.mixer import Few
from fedloom.shuffle import shuffle, words
from fedloom.tasks.task import Variables
from fedloom.trees import record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, Key

CHOSEN = {"random": "others drawn anew every round", "nearest": "those whose models are nearest to one's own"}


@record
class Neighbours(Few):
    """Every user makes its own average of its own model and a few others'. Build it with :func:`neighbours`.

    Where all models of all users are judged on everybody's data, that is K² evaluations; here it is K times a few.
    """

    weighting: Weighting
    peers: int = static()
    by: str = static()

    @property
    def needs_all_models(self) -> bool:
        """True if a client averages the models that are nearest to its own."""
        return self.by == "nearest"

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What the weighting looks at."""
        return self.weighting.readings

    def pick(self, key: Key[Array, ""], replies: Replies, m: int, models: Variables) -> Int[Array, "K p"]:
        """Whom each user averages: itself first, then others of the m that are present."""
        present = replies.present
        k, few = len(present), min(self.peers, m - 1)
        everybody = jnp.arange(k)
        if self.by == "nearest":
            others = jax.lax.top_k(-distances(models, present), few)[1]
        else:
            there = jnp.argsort(~present)  # those who are present, then the others
            rank = jnp.zeros(k, jnp.int32).at[there].set(jnp.arange(k, dtype=jnp.int32))

            def draw(user: Array) -> Array:
                drawn = shuffle(
                    jnp.arange(few, dtype=jnp.int32), jnp.int32(m - 1), words(jax.random.fold_in(key, user))
                )
                return there[drawn + (drawn >= rank[user])]

            others = jax.vmap(draw)(everybody)
        return jnp.concatenate([everybody[:, None], others], axis=1)

    def shares(self, replies: Replies, who: Int[Array, "K p"]) -> Float[Array, "K p"]:
        """How much of each is in each user's next model."""

        def row(mine: Array, read: dict[str, Array]) -> Array:
            others = (mine != mine[0]) | (jnp.arange(len(mine)) == 0)  # where few are there, oneself fills up the rest
            there = replies.present[mine] & others
            weights = jnp.where(there, self.weighting.weigh(Replies(replies.examples[mine], there, read)), 0)
            alone = jnp.zeros_like(weights).at[0].set(1)
            return jnp.where(weights.sum() > 0, weights / jnp.where(weights.sum() > 0, weights.sum(), 1), alone)

        own = jnp.zeros_like(who, jnp.float32).at[:, 0].set(1)
        return jnp.where(replies.present[:, None], jax.vmap(row)(who, replies.readings), own)

    def moved(self, users: int) -> int:
        """Everybody is sent a few models; all of them, to see which are the nearest."""
        return users * (users - 1 if self.by == "nearest" else min(self.peers, users - 1))

    def checked(self) -> Self:
        """The same, if its numbers can be used."""
        require(self.peers >= 1, "peers", "at least 1", self.peers)
        choose("peers_by", self.by, CHOSEN)
        require(self.weighting.is_mean, "weighting", "one that makes a mean", self.weighting.describe()["weighting"])
        self.weighting.checked()
        return self

    def describe(self) -> dict[str, Any]:
        """The weighting's name and numbers, how many others, and which."""
        return {"mixing": "neighbours", "peers": self.peers, "peers_by": self.by, **self.weighting.describe()}


def distances(models: Variables, present: Bool[Array, " K"]) -> Float[Array, "K K"]:
    """‖x_i - x_j‖² of all users' parameters; infinite to oneself, and to who is not there."""
    k = len(present)
    flat = [jnp.nan_to_num(a.reshape(k, -1)) for a in jax.tree.leaves(models.params)]
    flat = [a - a.mean(0) for a in flat]  # models are near each other: their differences are what counts
    exact = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    products = sum((exact(a, a.T) for a in flat), jnp.zeros((k, k)))
    squares = jnp.diagonal(products)
    found = squares[:, None] + squares - 2 * products
    return jnp.where(jnp.eye(k, dtype=bool) | ~present, jnp.inf, found)


def neighbours(weighting: Weighting = by_size, peers: int = 10, by: str = "random") -> Neighbours:
    """Every user's own average of its own model and a few others'.

    Arguments:
        weighting: how much each counts.
        peers: how many others.
        by: ``random``, drawn anew every round, or ``nearest``, whose models are nearest to one's own.

    >>> neighbours(peers=3).moved(100)
    300
    """
    return Neighbours(weighting, peers, by).checked()
