"""Mixer: who averages whose models, and how.

A mixer is a record with two things: ``readings``, the measures A[i, j] of user j's model on user i's data that it looks
at; and ``matrix``, what all told → M. Row i of M says how much of everybody's model is in user i's next one. Who is not
there keeps its own model. ``mix`` is M·X, and may take a shorter way.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.combine.replies import Reading, Replies
from fedloom.combine.weighting import Weighting, by_size
from fedloom.errors import require
from fedloom.tasks.task import Variables
from fedloom.trees import record, where

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, Key, PyTree

    from fedloom.mixing.graph import Graph

    Who = Int[Array, "K p"] | None

T = TypeVar("T")

FEW = 8  # models up to which an average is a sum over them, and not a row of a matrix product


class Mixer:
    """Who averages whose models."""

    @property
    def pushes(self) -> bool:
        """True if the columns of its matrix sum to one, and not the rows."""
        return False

    @property
    def seeks_consensus(self) -> bool:
        """True if all models become equal where clients only average."""
        return False

    @property
    def needs_all_models(self) -> bool:
        """True if a client must be sent all models to know whose it averages."""
        return False

    @property
    def graph(self) -> Graph | None:
        """The connections of any round, if they are known before it."""
        return None

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What is measured of everybody's model on everybody's data."""
        return ()

    def pick(self, key: Key[Array, ""], replies: Replies, m: int, models: Variables) -> Who:  # noqa: ARG002
        """Whom each user averages, of the m that are present: (users, a few); ``None`` is everybody."""
        return None

    def matrix(self, replies: Replies, who: Who = None) -> Float[Array, "K K"]:
        """M, whose rows sum to one. Readings are matrices here: row i has what user i read of each model, or of those
        that it averages.
        """
        raise NotImplementedError

    def mix(self, replies: Replies, models: T, who: Who = None) -> T:
        """M·X."""
        raise NotImplementedError

    def moved(self, users: int) -> int:
        """How many models so many users send each other in a round, on average."""
        raise NotImplementedError

    def sent(self, users: int, round: int, key: Callable[[], Key[Array, ""]]) -> int:  # noqa: ARG002
        """How many they send in that round, whose key it is."""
        return self.moved(users)

    def sized(self, clients: int) -> Mixer:  # noqa: ARG002
        """The same for so many users."""
        return self

    def checked(self) -> Self:
        """The same, if its numbers can be used."""
        return self

    def describe(self) -> dict[str, Any]:
        """What it is, by name and numbers."""
        raise NotImplementedError


@record
class Identity(Mixer):
    """M = I: nobody takes anything from anybody."""

    def matrix(self, replies: Replies, who: Who = None) -> Float[Array, "K K"]:  # noqa: ARG002
        """I."""
        return jnp.eye(len(replies.examples))

    def mix(self, replies: Replies, models: T, who: Who = None) -> T:  # noqa: ARG002
        """X."""
        return models

    def moved(self, users: int) -> int:  # noqa: ARG002
        """None."""
        return 0

    def describe(self) -> dict[str, Any]:
        """Its name."""
        return {"mixing": "local only"}


@record
class Personal(Mixer):
    """Every user makes its own average of all models, weighted by how they do on its own data: M[i, j] ∝ the weight
    that a weighting gives reply j when user i reads it. Build it with :func:`personal`.
    """

    weighting: Weighting

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What the weighting looks at."""
        return self.weighting.readings

    def row(self, replies: Replies, read: dict[str, Array]) -> Float[Array, " K"]:
        """The shares of everybody's model, for a user that read so much of each."""
        weights = self.weighting.weigh(Replies(replies.examples, replies.present, read))
        weights = jnp.where(replies.present, weights, 0)
        return weights / jnp.where(weights.sum() > 0, weights.sum(), 1)

    def matrix(self, replies: Replies, who: Who = None) -> Float[Array, "K K"]:  # noqa: ARG002
        """Row by row, the weighting's shares."""
        k = len(replies.examples)
        if self.readings:
            rows = jax.vmap(lambda read: self.row(replies, read))(replies.readings)
        else:
            rows = jnp.broadcast_to(self.row(replies, {}), (k, k))
        return jnp.where(replies.present[:, None], rows, jnp.eye(k))

    def mix(self, replies: Replies, models: T, who: Who = None) -> T:  # noqa: ARG002
        """M·X; where nobody reads anything all rows are the same, and so is everybody's average. A model that has
        ceased to be numbers spoils only the mixes that it is in.
        """
        if not self.readings:
            shares = self.row(replies, {})
            counted = where(shares > 0, models, jax.tree.map(jnp.zeros_like, models))
            mean = lambda a: jnp.broadcast_to(jnp.einsum("j,j...->...", shares, a), a.shape)  # noqa: E731
            return where(replies.present, jax.tree.map(mean, counted), models)
        return where(replies.present, product(self.matrix(replies), models), models)

    def moved(self, users: int) -> int:
        """Everybody sends everybody else its own."""
        return users * (users - 1)

    def checked(self) -> Self:
        """The same, if the weighting can be used."""
        require(self.weighting.is_mean, "weighting", "one that makes a mean", self.weighting.describe()["weighting"])
        self.weighting.checked()
        return self

    def describe(self) -> dict[str, Any]:
        """The weighting's name and numbers."""
        return {"mixing": "personal", **self.weighting.describe()}


def broken(models: PyTree) -> Bool[Array, " K"]:
    """Which of a stack of models have ceased to be numbers."""
    return jnp.stack([~jnp.isfinite(a).reshape(len(a), -1).all(1) for a in jax.tree.leaves(models)]).any(0)


def as_many(clients: int, workers: int, what: str) -> None:
    """Raise an :class:`ArgumentError` unless a mixer is for as many workers as there are clients."""
    require(clients == workers, what, f"for {clients:,} workers, as many as there are clients", f"for {workers:,}")


class Few(Mixer):
    """Everybody averages a few, whom :meth:`Mixer.pick` names: oneself first."""

    def shares(self, replies: Replies, who: Int[Array, "K p"]) -> Float[Array, "K p"]:
        """How much of each is in everybody's next model."""
        raise NotImplementedError

    def taken(self, replies: Replies, who: Int[Array, "K p"]) -> Float[Array, "K p"]:
        """The same, but one takes from oneself what there would be of those who are not there."""
        shares = self.shares(replies, who)
        there = jnp.where(replies.present[who], shares, 0)
        return there.at[:, 0].add((shares - there).sum(1))

    def matrix(self, replies: Replies, who: Who = None) -> Float[Array, "K K"]:
        """The shares as rows of M."""
        assert who is not None
        k = len(who)
        rows = jnp.zeros((k, k)).at[jnp.arange(k)[:, None], who].add(self.taken(replies, who))
        return jnp.where(replies.present[:, None], rows, jnp.eye(k))

    def mix(self, replies: Replies, models: T, who: Who = None) -> T:
        """M·X; who is not there keeps its own."""
        assert who is not None
        return where(replies.present, blended(models, who, self.taken(replies, who)), models)


def blended(models: T, who: Int[Array, "n p"], shares: Float[Array, "n p"]) -> T:
    """Σ_j shares[i, j] · models[who[i, j]] for each i; a model of no numbers spoils only what it is in."""

    def term(a: Array, share: Array, whose: Array) -> Array:
        return jnp.where(share != 0, share * a[whose], 0)  # 0 · NaN is not 0

    def one(a: Array, mine: Float[Array, " p"], others: Int[Array, " p"]) -> Array:
        return reduce(jnp.add, [term(a, mine[p], others[p]) for p in range(len(mine))])

    def by_row(a: Array, shares: Array, who: Array) -> Array:
        return jax.lax.map(lambda row: one(a, *row), (shares, who))

    def at_once(a: Array, shares: Array, who: Array) -> Array:
        return jax.vmap(partial(one, a))(shares, who)

    if who.shape[1] > FEW:
        rows, everybody = jnp.arange(len(who))[:, None], len(jax.tree.leaves(models)[0])
        return product(jnp.zeros((len(who), everybody), shares.dtype).at[rows, who].add(shares), models)
    mixed = lambda a: jax.lax.platform_dependent(a, shares, who, cpu=by_row, default=at_once)  # noqa: E731
    blend: T = jax.tree.map(mixed, models)  # row by row where gathers are slow
    return blend


def product(m: Float[Array, "n K"], models: T) -> T:
    """M·X. A model that has ceased to be numbers spoils only the rows that it is in."""
    bad = broken(models)
    clean = where(~bad, models, jax.tree.map(jnp.zeros_like, models))
    mixed = jax.tree.map(lambda a: jnp.einsum("ij,j...->i...", m, a), clean)
    spoiled = (m != 0) @ bad.astype(m.dtype) > 0
    return where(spoiled, jax.tree.map(lambda a: jnp.full_like(a, jnp.nan), mixed), mixed)


def checksum(*arrays: Array | np.ndarray | float) -> str:
    """A sum of numbers, by which others under the same name are known."""
    return f"{zlib.crc32(b''.join(np.asarray(a).tobytes() for a in arrays)):08x}"


identity = Identity()


def personal(weighting: Weighting = by_size) -> Personal:
    """Every user's own average: plain (``uniform``), weighted (``by_accuracy()``, ``by_loss()``), or without those
    whose models do badly on its data (``excluding()``).

    >>> from fedloom.combine import by_accuracy
    >>> [need.name for need in personal(by_accuracy()).readings]
    ['validation_accuracy_after']
    """
    return Personal(weighting)
