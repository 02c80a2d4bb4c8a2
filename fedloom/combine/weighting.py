"""Weighting: how much each reply counts. The engine divides by the sum of the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from fedloom.local.reply import Reply

if TYPE_CHECKING:
    from jaxtyping import Array, Float

Weighting = Callable[[Reply], Any]


def by_size(reply: Reply) -> Float[Array, ""]:
    """n_k: a client counts as much as it has examples (McMahan et al. 2017)."""
    return reply.examples


def uniform(reply: Reply) -> Float[Array, ""]:
    """1: every client counts the same."""
    return jnp.ones_like(reply.examples)


WEIGHTINGS: dict[str, Weighting] = {"size": by_size, "uniform": uniform}
