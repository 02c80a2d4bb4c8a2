"""Call: a kernel as an operation of JAX."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.kernels.compiler import target

if TYPE_CHECKING:
    from jaxtyping import Array


def call(kind: str, shape: Hashable, size: tuple[int, ...], *arrays: Array) -> Array:
    """Return the result of a kernel, of a size."""
    [found] = call_for(kind, shape, [size], *arrays)
    return found


def call_for(kind: str, shape: Hashable, sizes: list[tuple[int, ...]], *arrays: Array) -> list[Array]:
    """Return the results of a kernel, of sizes."""
    results = [jax.ShapeDtypeStruct(size, jnp.float32) for size in sizes]
    found: list[Array] = list(jax.ffi.ffi_call(target(kind, shape), results)(*arrays))
    return found
