"""Dense: a layer's product x·W, whose gradient for the weights is a kernel.

XLA multiplies rows by weights at most of a core's peak, but not the transposed inputs by the gradient of the result,
which it also computes once more for that product, in another order of axes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax

from fedloom.kernels.call import call
from fedloom.kernels.models import for_each_model
from fedloom.kernels.product import Size

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Rows = Float[Array, "rows inputs"]
    Weights = Float[Array, "…"]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def multiply(is_transposed: bool, x: Rows, w: Weights) -> Float[Array, "rows outputs"]:
    """Return x·W, or x·Wᵀ."""
    return x @ (w.T if is_transposed else w)


def _forward(is_transposed: bool, x: Rows, w: Weights) -> tuple[Array, tuple[Array, Array]]:
    return multiply(is_transposed, x, w), (x, w)


def _backward(is_transposed: bool, residuals: tuple[Array, Array], d: Array) -> tuple[Array, Array]:
    x, w = residuals
    dw = for_each_model(transposed_product, *((d, x) if is_transposed else (x, d)))
    return d @ (w if is_transposed else w.T), dw


multiply.defvjp(_forward, _backward)


def transposed_product(a: Float[Array, "inner rows"], b: Float[Array, "inner columns"]) -> Float[Array, "rows columns"]:
    """Return aᵀ·b."""
    size = Size(a.shape[1], b.shape[1], len(a))
    return call("transposed_product", size, (size.rows, size.columns), a, b)
