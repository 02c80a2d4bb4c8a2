"""Server: what the server does with the mean update (Reddi et al. 2021, "Adaptive federated optimization").

With Δ the mean update, Algorithm 2 there is

    m ← β₁·m + (1 - β₁)·Δ                               (β₁ = 0 for adagrad)
    v ← v + Δ²                                          (adagrad)
    v ← β₂·v + (1 - β₂)·Δ²                              (adam)
    v ← v - (1 - β₂)·Δ²·sign(v - Δ²)                    (yogi)
    w ← w + lr · m / (√v + τ)

from m = 0 and v = τ². Nothing is corrected for its beginning, as Kingma and Ba's Adam is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedloom.errors import choose, number, require
from fedloom.trees import record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Float, PyTree

B1, B2, TAU = 0.9, 0.99, 1e-3  # β₁, β₂ and τ of Reddi et al. 2021, section 5


class Moments(NamedTuple):
    """What an adaptive server remembers: m and v."""

    first: PyTree
    second: PyTree


def adaptive(lr: Any, b1: float, second: Callable[[Array, Array], Array]) -> optax.GradientTransformation:
    """Algorithm 2 with (v, Δ²) → v; gradients are minus the mean update, and so is m."""

    def init(params: PyTree) -> Moments:
        filled = lambda value: jax.tree.map(lambda a: jnp.full_like(a, value), params)  # noqa: E731
        return Moments(filled(0.0), filled(TAU**2))

    def update(gradients: PyTree, state: Moments, params: PyTree = None) -> tuple[PyTree, Moments]:  # noqa: ARG001
        m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.first, gradients)
        v = jax.tree.map(lambda v, g: second(v, g * g), state.second, gradients)
        return jax.tree.map(lambda m, v: -lr * m / (jnp.sqrt(v) + TAU), m, v), Moments(m, v)

    return optax.GradientTransformation(init, update)


SERVERS: dict[str, Callable[[Any, Any], optax.GradientTransformation]] = {
    "average": lambda lr, momentum: optax.sgd(lr),  # noqa: ARG005
    "momentum": lambda lr, momentum: optax.sgd(lr, momentum=momentum),
    "adagrad": lambda lr, momentum: adaptive(lr, 0.0, lambda v, d: v + d),  # noqa: ARG005
    "adam": lambda lr, momentum: adaptive(lr, B1, lambda v, d: B2 * v + (1 - B2) * d),  # noqa: ARG005
    "yogi": lambda lr, momentum: adaptive(lr, B1, lambda v, d: v - (1 - B2) * d * jnp.sign(v - d)),  # noqa: ARG005
}
MOMENTUM = 0.9
RATES = {"average": 1.0, "momentum": 1.0, "adagrad": 0.03, "adam": 0.01, "yogi": 0.01}
"""Step → its usual learning rate: those that divide by a deviation go so far with every weight in the first round."""


@record
class Server:
    """The server's optimiser: an optax transformation whose gradient is minus the mean update."""

    lr: Float[Array, ""] | float
    momentum: Float[Array, ""] | float
    name: str = static()

    def transformation(self) -> optax.GradientTransformation:
        """The optax transformation."""
        return SERVERS[self.name](self.lr, self.momentum)


def checked_server(server: Server) -> Server:
    """The same, if its numbers can be used."""
    number("server_lr", server.lr, "above 0", lambda lr: lr > 0)
    number("server_momentum", server.momentum, "at least 0 and below 1", lambda momentum: 0 <= momentum < 1)
    return server


def server(name: str = "average", *, lr: float | None = None, momentum: float | None = None) -> Server:
    """The server's step by name: ``average`` (w ← w + lr · mean update), ``momentum``, ``adagrad``, ``adam``, ``yogi``.
    Its learning rate is 1 if nothing is said, with adagrad 0.03, with adam and yogi 0.01; its momentum, where it has
    one, 0.9.

    >>> server().lr, server("adam").lr, server("adam", lr=0.1).lr
    (1.0, 0.01, 0.1)
    >>> server("median")
    Traceback (most recent call last):
    fedloom.errors.UnknownName: server must be one of adagrad, adam, average, momentum, yogi, but is 'median'
    """
    usual = choose("server", name, RATES)
    has_one = momentum is None or name == "momentum"
    require(has_one, "server_momentum", f"left alone with the server {name}, which has no use for it", momentum)
    return checked_server(Server(usual if lr is None else lr, MOMENTUM if momentum is None else momentum, name))
