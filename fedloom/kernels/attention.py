"""Attention: its kernels as functions that JAX can differentiate and map over models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.kernels.by_model import by_model
from fedloom.kernels.compiler import target
from fedloom.kernels.heads import Heads
from fedloom.kernels.processor import width

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Rows = Float[Array, "batch places heads depth"]


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def attend(scale: float, is_causal: bool, q: Rows, k: Rows, v: Rows) -> Rows:
    """Return softmax(scale · Q·Kᵀ)·V."""
    return _call("attention", scale, is_causal, 1, q, k, v)[0]


def _forward(scale: float, is_causal: bool, q: Rows, k: Rows, v: Rows) -> tuple[Rows, tuple[Rows, Rows, Rows]]:
    return attend(scale, is_causal, q, k, v), (q, k, v)


def _backward(scale: float, is_causal: bool, residuals: tuple[Rows, Rows, Rows], d: Rows) -> tuple[Array, ...]:
    return _call("attention_gradients", scale, is_causal, 3, *residuals, d)


attend.defvjp(_forward, _backward)


def _call(kind: str, scale: float, is_causal: bool, results: int, *arrays: Array) -> tuple[Array, ...]:
    """Return the results of a kernel, which have the shapes of the first arrays; several models are a larger batch."""

    def every(*stacked: Array) -> tuple[Array, ...]:
        whole = [a.reshape(-1, *a.shape[2:]) for a in stacked]
        batch, queries, heads, depth = whole[0].shape
        shape = Heads(batch, queries, whole[1].shape[1], heads, depth, scale, is_causal)
        sizes = [*(a.shape for a in whole[:results]), (shape.workspace(width()),)]
        call = jax.ffi.ffi_call(target(kind, shape), [jax.ShapeDtypeStruct(size, jnp.float32) for size in sizes])
        return tuple(y.reshape(a.shape) for y, a in zip(call(*whole), stacked[:results], strict=False))

    return tuple(y[0] for y in by_model(every)(*(a[None] for a in arrays)))
