"""Mixer: who averages whose models, and how.

A mixer is a record with two things: ``readings``, the measures A[i, j] of user j's model on user i's data that it looks
at; and ``matrix``, what all told → M. Row i of M says how much of everybody's model is in user i's next one. Who is not
there keeps its own model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp

from fedloom.combine.replies import Reading, Replies
from fedloom.combine.weighting import Weighting, uniform
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Float


class Mixer(Protocol):
    """Who averages whose models."""

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What is measured of everybody's model on everybody's data."""

    def matrix(self, replies: Replies) -> Float[Array, "K K"]:
        """M, whose rows sum to one. Readings are matrices here: row i has what user i read of each model."""

    def moved(self, users: int) -> int:
        """How many models so many users send each other."""

    def describe(self) -> dict[str, Any]:
        """What it is, by name and numbers."""


@record
class Identity:
    """M = I: nobody takes anything from anybody."""

    readings = ()

    def matrix(self, replies: Replies) -> Float[Array, "K K"]:
        """I."""
        return jnp.eye(len(replies.examples))

    def moved(self, users: int) -> int:  # noqa: ARG002
        """None."""
        return 0

    def describe(self) -> dict[str, Any]:
        """Its name."""
        return {"mixing": "local only"}


@record
class Personal:
    """Every user makes its own average of all models, weighted by how they do on its own data: M[i, j] ∝ the weight
    that a weighting gives reply j when user i reads it. Build it with :func:`personal`.
    """

    weighting: Weighting

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What the weighting looks at."""
        return self.weighting.readings

    def matrix(self, replies: Replies) -> Float[Array, "K K"]:
        """Row by row, the weighting's shares."""
        k = len(replies.examples)

        def row(read: dict[str, Array]) -> Float[Array, " K"]:
            weights = self.weighting.weigh(Replies(replies.examples, replies.present, read))
            weights = jnp.where(replies.present, weights, 0)
            return weights / weights.sum()

        rows = jax.vmap(row)(replies.readings) if replies.readings else jnp.broadcast_to(row({}), (k, k))
        return jnp.where(replies.present[:, None], rows, jnp.eye(k))

    def moved(self, users: int) -> int:
        """Everybody sends everybody else its own."""
        return users * (users - 1)

    def describe(self) -> dict[str, Any]:
        """The weighting's name and numbers."""
        return {"mixing": "personal", **self.weighting.describe()}


identity = Identity()


def personal(weighting: Weighting = uniform) -> Personal:
    """Every user's own average: plain (``uniform``), weighted (``by_accuracy()``, ``by_loss()``), or without those
    whose models do badly on its data (``excluding()``).

    >>> from fedloom.combine import by_accuracy
    >>> [need.name for need in personal(by_accuracy()).readings]
    ['validation_accuracy_after']
    """
    return Personal(weighting)
