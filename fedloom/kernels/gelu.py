"""GELU: x · Φ(x) by kernels, as a function that JAX can differentiate and map over models.

The gradient is computed from x alone, so that nothing else is kept for it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.kernels.by_model import by_model
from fedloom.kernels.compiler import target
from fedloom.kernels.gaussian import Numbers

if TYPE_CHECKING:
    from jaxtyping import Array, Float


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def gelu(approximate: bool, x: Float[Array, "…"]) -> Float[Array, "…"]:
    """Return x · Φ(x)."""
    return _call("gelu", approximate, x)


def _kept(approximate: bool, x: Array) -> tuple[Array, Array]:
    return gelu(approximate, x), x


def _backward(approximate: bool, x: Array, d: Array) -> tuple[Array]:
    return (_call("gelu_gradient", approximate, x, d),)


gelu.defvjp(_kept, _backward)


def _call(kind: str, approximate: bool, *arrays: Array) -> Array:
    """Return the result of a kernel; several models are a larger array."""

    def every(*stacked: Array) -> Array:
        shape = jax.ShapeDtypeStruct(stacked[0].shape, jnp.float32)
        found: Array = jax.ffi.ffi_call(target(kind, Numbers(stacked[0].size, approximate)), shape)(*stacked)
        return found

    return by_model(every)(*(a[None] for a in arrays))[0]
