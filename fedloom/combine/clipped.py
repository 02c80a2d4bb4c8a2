"""Clipped: no reply moves the model further than so far."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import optax

from fedloom.combine.combiner import Combiner, mean
from fedloom.errors import require
from fedloom.tasks.task import Variables
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float

    Scalar = Float[Array, ""] | float
    Weights = Float[Array, " m"]


@record
class Clipped(Combiner):
    """Δ_k ← Δ_k · min(1, c / ‖Δ_k‖), then another combiner (Sun et al. 2019). The norm is over all trainable
    parameters; statistics of normalising layers are no steps, and stay as they are. Build it with :func:`clipped`.
    """

    norm: Scalar
    then: Combiner

    @property
    def alone(self) -> bool:
        """Whether the other is."""
        return self.then.alone

    @property
    def is_coordinatewise(self) -> bool:
        """True if the other combiner is."""
        return self.then.is_coordinatewise

    def heard(self, update: Variables) -> tuple[Variables, Bool[Array, ""]]:
        """The reply, shortened, as the other hears it; nothing of one that is not finite."""
        update, counts = super().heard(update)
        length = optax.tree.norm(update.params)
        short = jax.tree.map(lambda u: jnp.where(length > self.norm, u * (self.norm / length), u), update.params)
        update, usable = self.then.heard(replace(update, params=short))
        return update, counts & usable

    def combine(self, updates: Variables, weights: Weights) -> Variables:
        """The other's."""
        return self.then.combine(updates, weights)

    def checked(self) -> Self:
        """The same, if its norm can be used."""
        require(bool(self.norm > 0), "clip", "above 0", self.norm)
        self.then.checked()
        return self

    def describe(self) -> dict[str, Any]:
        """The norm, and the other."""
        return {**self.then.describe(), "clip": float(self.norm)}


def clipped(norm: float, then: Combiner = mean) -> Clipped:
    """No reply moves the model further than so far; a reply that is not finite counts as if it had not come.

    Arguments:
        norm: c, the largest norm of an update; infinity shortens nothing.
        then: what is made of the replies.

    Reference: Sun et al. 2019, Can You Really Backdoor Federated Learning?, section 3.

    >>> update, _ = clipped(1.0).heard(Variables({"w": jnp.array([3.0, 4.0])}, {}))
    >>> [round(float(w), 6) for w in update.params["w"]]
    [0.6, 0.8]
    >>> clipped(0)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: clip must be above 0, but is 0
    """
    return Clipped(norm, then).checked()
