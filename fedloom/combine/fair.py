"""Fair: the worse a model does for a client, the more that client counts (q-FedAvg, Li et al. 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import jax.numpy as jnp

from fedloom.combine.replies import Reading, Replies, reading
from fedloom.combine.weighting import Weighting
from fedloom.errors import require
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Scalar = Float[Array, ""] | float
    Weights = Float[Array, " m"]

LOSS = reading("loss", "training", "before")
LEAST = 1e-10  # added to losses, which are then raised to powers that may be negative


@record
class Fair(Weighting):
    """Minimise Σ F_k^(q+1) / (q+1), F_k the loss of client k. With L = 1/η and Δ_k = L (w - w_k):

        h_k = q F_k^(q-1) ‖Δ_k‖² + L F_k^q
        w ← w - Σ F_k^q Δ_k / Σ h_k

    so that a reply weighs L F_k^q, and the sum is divided by Σ h_k. Build it with :func:`fair`.
    """

    q: Scalar

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The loss of the model that clients were sent, on their training data."""
        return (LOSS,)

    def weigh(self, replies: Replies) -> Weights:
        """L F_k^q; nothing for a loss that is no number."""
        assert replies.rate is not None
        loss = replies.readings[LOSS.name]
        usable = jnp.isfinite(loss)
        return jnp.where(usable, (jnp.where(usable, loss, 0) + LEAST) ** self.q / replies.rate, 0)

    def total(self, replies: Replies, weights: Weights) -> Float[Array, ""]:
        """Σ h_k over those that count."""
        loss = jnp.where(weights > 0, replies.readings[LOSS.name], 0) + LEAST
        assert replies.change is not None and replies.rate is not None
        squared = jnp.where(weights > 0, replies.change, 0) / replies.rate**2
        return jnp.sum(self.q * loss ** (self.q - 1) * squared + weights)

    @property
    def is_mean(self) -> bool:
        """No: the sum is divided by Σ h_k."""
        return False

    def checked(self) -> Self:
        """The same, if q can be used."""
        require(bool(self.q >= 0), "q", "at least 0", self.q)
        return self

    def describe(self) -> dict[str, Any]:
        """Its name, and q."""
        return {"weighting": "fair", "q": float(self.q)}


def fair(q: float = 1.0) -> Fair:
    """The worse a model does for a client, the more that client counts.

    Arguments:
        q: how much more; 0 is every client the same.

    >>> fair(-1)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: q must be at least 0, but is -1
    """
    return Fair(q).checked()
