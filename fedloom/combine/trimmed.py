"""Trimmed: of every coordinate the extremes are left out, so that few who lie, however grossly, cannot move the model
far: the trimmed mean, and the median, which is trimmed to the utmost (Yin et al. 2018).

Of m replies that count, let x_(1) ≤ … ≤ x_(m) be what they say of one coordinate, in order. Then

    trimmed(β):  k = ⌊β·m⌋            1/(m - 2k) · Σ_{k < i ≤ m-k} x_(i)
    median:      k = ⌊(m - 1)/2⌋      the same: the middle one, or the mean of the middle two

Who counts is the weighting's affair: whoever has weight. How much does not matter here, all count the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp

from fedloom.combine.combiner import Combiner
from fedloom.combine.ordered import ordered
from fedloom.errors import require
from fedloom.tasks.task import Variables
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

    Scalar = Float[Array, ""] | float
    Weights = Float[Array, " m"]

SLACK = 1e-6  # relative: 0.29 · 100 is a little less than 29 in float32


@record
class Median(Combiner):
    """The median of each coordinate; build it with :func:`median`."""

    @property
    def is_coordinatewise(self) -> bool:
        """True."""
        return True

    def combine(self, updates: Variables, weights: Weights) -> Variables:
        """The median of those with weight."""
        m = jnp.sum(weights > 0)
        return inner_mean(updates, weights, utmost(m))

    def describe(self) -> dict[str, Any]:
        """Its name."""
        return {"combine": "median"}


@record
class Trimmed(Combiner):
    """The mean of each coordinate without its extremes; build it with :func:`trimmed`."""

    share: Scalar

    @property
    def is_coordinatewise(self) -> bool:
        """True."""
        return True

    def combine(self, updates: Variables, weights: Weights) -> Variables:
        """The trimmed mean of those with weight."""
        m = jnp.sum(weights > 0)
        k = jnp.floor(self.share * m * (1 + SLACK)).astype(jnp.int32)
        return inner_mean(updates, weights, jnp.minimum(k, utmost(m)))

    def checked(self) -> Self:
        """The same, if its share can be used."""
        require(bool(0 <= self.share < 0.5), "trim", "at least 0 and below 0.5", self.share)
        return self

    def describe(self) -> dict[str, Any]:
        """Its name and share."""
        return {"combine": "trimmed", "trim": float(self.share)}


def utmost(m: Int[Array, ""]) -> Int[Array, ""]:
    """How many can be left out at either end of m so that somebody stays."""
    return jnp.maximum(m - 1, 0) // 2


def inner_mean(updates: Variables, weights: Weights, k: Int[Array, ""]) -> Variables:
    """1/(m - 2k) · Σ x_(i) over k < i ≤ m - k, of each coordinate of replies with weight; 0 where nobody has any."""
    counts, place = weights > 0, jnp.arange(len(weights))
    m = counts.sum()
    inner, among = (place >= k) & (place < m - k), jnp.maximum(m - 2 * k, 1)

    def coordinates(x: Array) -> Array:
        over = lambda rows: rows.reshape(-1, *(1,) * (x.ndim - 1))  # noqa: E731
        rising = ordered(jnp.where(over(counts), x, jnp.inf))  # who does not count comes last
        return jnp.sum(jnp.where(over(inner), rising, 0), axis=0) / among

    found: Variables = jax.tree.map(coordinates, updates)
    return found


def median() -> Median:
    """The median of each coordinate of the replies that count: half of them may lie, but for one.

    Replies are not weighted; who has no weight does not count, nor does a reply that is not finite.

    Reference: Yin et al. 2018, Byzantine-Robust Distributed Learning, Definition 1.

    >>> said = Variables({"w": jnp.array([[1.0, 5.0], [2.0, -1.0], [1e6, 0.0]])}, {})
    >>> median().combine(said, jnp.ones(3)).params["w"].tolist()
    [2.0, 0.0]
    """
    return Median()


def trimmed(share: float = 0.1) -> Trimmed:
    """The mean of each coordinate of the replies that count, without its smallest and its largest values.

    Replies are not weighted; who has no weight does not count, nor does a reply that is not finite.

    Arguments:
        share: β, the share of replies that is left out at either end; 0 is the plain mean.

    Reference: Yin et al. 2018, Byzantine-Robust Distributed Learning, Definition 2.

    >>> said = Variables({"w": jnp.array([1.0, 2.0, 6.0, -1e6, 1e6])}, {})
    >>> float(trimmed(0.2).combine(said, jnp.ones(5)).params["w"])
    3.0
    >>> trimmed(0.5)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: trim must be at least 0 and below 0.5, but is 0.5
    """
    return Trimmed(share).checked()
