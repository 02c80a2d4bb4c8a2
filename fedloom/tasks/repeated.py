"""Repeated: an array that is repeated along leading axes, such as the bias of a dense layer.

Its gradient is a sum over these axes. A GPU adds up the rows of a wide array slowly, and a sum of numbers in bfloat16
may be rounded to bfloat16 many times; so it is added up in float32, some rows at a time, and then these sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from fedloom.tasks.rewriting import Operation, Rule
from fedloom.tasks.summed import summed

if TYPE_CHECKING:
    from jaxtyping import Array, Float

LEAST = 256
"""Rows from which two sums are faster than one."""


def along_rows(function: Callable[[Array, Array], Array]) -> Rule:
    """Return a rule for an element-wise function of two arrays, one of which is the same for many rows."""

    def rule(_: Operation, x: Any, y: Any) -> Any:
        if jnp.ndim(x) != jnp.ndim(y):
            return NotImplemented
        shape = jnp.broadcast_shapes(x.shape, y.shape)
        wide = [whole(a, shape) for a in (x, y)]
        return NotImplemented if wide[0] is x and wide[1] is y else function(*wide)

    return rule


def whole(x: Any, shape: tuple[int, ...]) -> Any:
    """Return an array repeated to a shape if that is along many rows, and as it is otherwise."""
    at = next((axis for axis, size in enumerate(x.shape) if size > 1), x.ndim)
    many = math.prod(shape[:at])
    if x.shape[at:] != shape[at:] or at == x.ndim or many < LEAST or not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    return repeated(shape[:at], x.reshape(shape[at:]))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def repeated(leading: tuple[int, ...], x: Float[Array, "…"]) -> Float[Array, "…"]:
    """Return an array repeated along new leading axes of the given sizes."""
    return jnp.broadcast_to(x, (*leading, *x.shape))


def _forward(leading: tuple[int, ...], x: Array) -> tuple[Array, None]:
    return repeated(leading, x), None


def _gradient(leading: tuple[int, ...], _: None, d: Array) -> tuple[Array]:
    rows = math.prod(leading)
    many = next(n for n in range(math.isqrt(rows), 0, -1) if rows % n == 0)
    some = d.reshape(many, rows // many, *d.shape[len(leading) :]).astype(summed(d)).sum(1)
    return (lax.optimization_barrier(some).sum(0).astype(d.dtype),)  # XLA would make one sum of both


repeated.defvjp(_forward, _gradient)


RULES: dict[str, Rule] = {"add": along_rows(lax.add), "sub": along_rows(lax.sub), "mul": along_rows(lax.mul)}
