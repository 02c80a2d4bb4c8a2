"""Penalties: terms that are added to the loss of local work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import jax

from fedloom.trees import names, record

if TYPE_CHECKING:
    from jaxtyping import Array, Float, PyTree

    Scalar = Float[Array, ""] | float


class Penalty:
    """A term of the loss that depends on the parameters only."""

    def gradient(self, params: PyTree) -> PyTree:
        """Return the gradient of the term."""
        raise NotImplementedError


@record
class ProximalPenalty(Penalty):
    """The term strength/2 · ‖w - center‖²."""

    strength: Scalar
    center: PyTree

    def gradient(self, params: PyTree) -> PyTree:
        """Return strength · (w - center)."""
        return jax.tree.map(lambda w, a: self.strength * (w - a), params, self.center)


@record
class LinearPenalty(Penalty):
    """The term ⟨slope, w⟩."""

    slope: PyTree

    def gradient(self, params: PyTree) -> PyTree:  # noqa: ARG002
        """Return the slope."""
        return self.slope


@record
class QuadraticPenalty(Penalty):
    """The term Σ strength/2 · ‖w‖² + ⟨slope, w⟩ over arrays w of the parameters.

    Arguments:
        strength: name of an array → its strength.
        slope: name of an array → its slope; 0 for arrays that are not named.
    """

    strength: dict[str, Array]
    slope: dict[str, Array]

    def gradient(self, params: PyTree) -> PyTree:
        """Return strength · w + slope, array by array."""
        leaves, shape = jax.tree.flatten(params)
        named = zip(names(params), leaves, strict=True)
        return jax.tree.unflatten(shape, [self.strength[name] * w + self.slope.get(name, 0) for name, w in named])


def add_penalties(gradient: PyTree, params: PyTree, penalties: Iterable[Penalty], scale: Scalar = 1.0) -> PyTree:
    """Return gradient + Σ scale · ∇penalty."""
    for penalty in penalties:
        gradient = jax.tree.map(lambda g, p: g + scale * p, gradient, penalty.gradient(params))
    return gradient
