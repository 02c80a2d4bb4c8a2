"""One server: all clients train the same model, and the server receives a weighted mean of their updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import jax.numpy as jnp
import numpy as np

from fedloom.combine.replies import Reading, Replies
from fedloom.combine.weighting import Weighting, by_size
from fedloom.errors import require
from fedloom.machine import devices
from fedloom.routing.routing import Routing
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Float


def weighted(weighting: Any) -> Weighting:
    """Return the argument if it is a weighting; raise an :class:`ArgumentError` otherwise."""
    require(isinstance(weighting, Weighting), "weighting", "a Weighting, such as fl.combine.uniform", weighting)
    return weighting


@record
class OneServer(Routing):
    """Δ = Σ_k w_k Δ_k / Σ_k w_k, where the weighting gives w_k. Build it with :func:`one_server`."""

    weighting: Weighting

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The measures that the weighting depends on."""
        return self.weighting.readings

    @property
    def compares_replies(self) -> bool:
        """True if the weights depend on other replies, or are not what their sum is divided by."""
        return not self.weighting.alone or type(self.weighting).total is not Weighting.total

    @property
    def divides_by_weights(self) -> bool:
        """True if the weighting divides by the sum of the weights."""
        return self.weighting.is_mean

    def weigh(self, replies: Replies) -> Float[Array, " m"]:
        """Return the weight of each reply."""
        return self.weighting.weigh(replies)

    def total(self, replies: Replies, weights: Float[Array, " m"]) -> Float[Array, ""]:
        """Return the number by which the sum of the weighted updates is divided."""
        return self.weighting.total(replies, weights)

    def checked(self) -> Self:
        """Return the routing if the weighting can be used."""
        weighted(self.weighting).checked()
        check_alone(self.weighting)
        return self

    def describe(self) -> dict[str, Any]:
        """Return the weighting's name and numbers."""
        return self.weighting.describe()


def check_alone(weighting: Weighting) -> None:
    """Raise an :class:`ArgumentError` if a user's weighting compares replies without saying so, or gives no weight."""
    if not weighting.alone or type(weighting).__module__.startswith("fedloom."):
        return
    devices()  # before JAX computes anything, so that it sees every core
    examples = jnp.array([1.0, 2.0, 5.0])
    weights = np.asarray(weighting.weigh(Replies(examples, jnp.ones(3, bool), {})))
    each = [float(weighting.weigh(Replies(n[None], jnp.ones(1, bool), {}))[0]) for n in examples]
    usable = bool(np.all(np.isfinite(weights) & (weights >= 0)))
    require(usable, "weighting", "one whose weights are finite and at least 0", weights.tolist())
    need = "one that defines `alone` as False, since a weight depends on other replies"
    require(np.allclose(weights, each), "weighting", need, type(weighting).__name__)


def one_server(weighting: Weighting = by_size) -> OneServer:
    """Return the routing in which all clients train one model.

    Args:
        weighting: the weight of each client's update.
    """
    return OneServer(weighting)
