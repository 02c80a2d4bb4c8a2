"""Summed: the type in which many numbers are added up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp

if TYPE_CHECKING:
    from jaxtyping import Array


def summed(a: Array) -> jnp.dtype:
    """The type in which such numbers are summed up: float32 at least."""
    return jnp.promote_types(a.dtype, jnp.float32)
