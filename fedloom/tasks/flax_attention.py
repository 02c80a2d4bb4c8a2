"""Flax Linen's attention as the operation of :mod:`fedloom.tasks.attention`; NNX calls JAX's itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from fedloom.tasks.attention import as_jax
from fedloom.tasks.user_model import library

if TYPE_CHECKING:
    from jaxtyping import Array

SHAPED = {"mask", "bias"}
IGNORED = {"broadcast_dropout", "deterministic", "dropout_rate", "dropout_rng", "force_fp32_for_softmax"}
"""Options that change nothing without dropout."""


def linen_attention(call: Callable[..., Any], arguments: tuple[Any, ...], options: Any, context: Any) -> Any:
    """Call a method of a Linen module; inside an attention layer, the default function is replaced.

    It is for ``flax.linen.intercept_methods``.
    """
    linen, layer = library("flax.linen", "flax"), context.module
    default = linen.dot_product_attention
    if not isinstance(layer, linen.MultiHeadDotProductAttention) or layer.attention_fn is not default:
        return call(*arguments, **options)
    object.__setattr__(layer, "attention_fn", fused(default))  # a layer is frozen
    try:
        return call(*arguments, **options)
    finally:
        object.__setattr__(layer, "attention_fn", default)


def fused(default: Callable[..., Any]) -> Callable[..., Any]:
    """Return Linen's ``dot_product_attention``, done as one operation where nothing is asked of it that needs more."""

    @wraps(default)
    def attend(query: Array, key: Array, value: Array, **options: Any) -> Any:
        rest = {n for n, o in options.items() if o is not None} - SHAPED - IGNORED
        drops = options.get("dropout_rate", 0) > 0 and not options.get("deterministic", False)
        one_type = query.dtype == key.dtype == value.dtype and options.get("dtype") in (None, query.dtype)
        if rest - {"dtype"} or drops or query.ndim != 4 or not one_type:
            return default(query, key, value, **options)
        mask = options.get("mask")
        return as_jax(query, key, value, options.get("bias"), None if mask is None else mask.astype(bool))

    return attend
