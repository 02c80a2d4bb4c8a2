"""Server: what the server does with the mean update (Reddi et al. 2021, "Adaptive federated optimization")."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import optax

from fedloom.errors import choose, number
from fedloom.trees import record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Float

B1, B2, TAU = 0.9, 0.99, 1e-3  # β₁, β₂ and τ of Reddi et al. 2021, section 5

SERVERS: dict[str, Callable[[Any, Any], optax.GradientTransformation]] = {
    "average": lambda lr, momentum: optax.sgd(lr),  # noqa: ARG005
    "momentum": lambda lr, momentum: optax.sgd(lr, momentum=momentum),
    "adagrad": lambda lr, momentum: optax.adagrad(lr, initial_accumulator_value=0.0, eps=TAU),  # noqa: ARG005
    "adam": lambda lr, momentum: optax.adam(lr, b1=B1, b2=B2, eps=TAU),  # noqa: ARG005
    "yogi": lambda lr, momentum: optax.yogi(lr, b1=B1, b2=B2, eps=TAU),  # noqa: ARG005
}
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


def server(name: str = "average", *, lr: float | None = None, momentum: float = 0.9) -> Server:
    """The server's step by name: ``average`` (w ← w + lr · mean update), ``momentum``, ``adagrad``, ``adam``, ``yogi``.
    Its learning rate is 1 if nothing is said, with adagrad 0.03, with adam and yogi 0.01.

    >>> server().lr, server("adam").lr, server("adam", lr=0.1).lr
    (1.0, 0.01, 0.1)
    >>> server("median")
    Traceback (most recent call last):
    fedloom.errors.UnknownName: server must be one of adagrad, adam, average, momentum, yogi, but is 'median'
    """
    usual = choose("server", name, RATES)
    return checked_server(Server(usual if lr is None else lr, momentum, name))
