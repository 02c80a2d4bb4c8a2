"""PyTorch's attention as the operation of :mod:`fedloom.tasks.attention`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import jax.numpy as jnp

from fedloom.tasks.attention import attention
from fedloom.tasks.user_model import library


def scaled_dot_product_attention(
    world: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Compute ``torch.nn.functional.scaled_dot_product_attention``; with dropout, as torchax does."""
    masked = attn_mask is not None
    if dropout_p > 0 or query.ndim not in (3, 4) or key.shape[-1] != value.shape[-1] or (masked and is_causal):
        written_out = library("torchax.ops.jtorch", "torch").scaled_dot_product_attention
        return written_out(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    q, k, v, given = world.t2j_iso((query, key, value, attn_mask))
    several = q.ndim == 4
    q, k, v = (jnp.moveaxis(a if several else a[:, None], 1, 2) for a in (q, k, v))
    if given is not None:
        given = given if several or given.ndim == 2 else given[:, None]
        given = given.reshape((1,) * (4 - given.ndim) + given.shape)
    kind = {} if given is None else {"mask" if given.dtype == bool else "bias": given}
    out = jnp.moveaxis(attention(q, k, v, scale=scale, is_causal=is_causal, **kind), 1, 2)
    return world.j2t_iso(out if several else out[:, 0])


@contextmanager
def fused_attention(world: Any, module: Any) -> Iterator[None]:
    """Inside, ``nn.MultiheadAttention`` calls this file's function, and computes the weights that it also returns
    apart: if they are not used, they are not compiled.
    """
    multi_head, functional = library("torch.nn", "torch").MultiheadAttention, _functional()
    original = getattr(functional.scaled_dot_product_attention, "__wrapped__", functional.scaled_dot_product_attention)
    parts = [part for part in module.modules() if type(part) is multi_head and "forward" not in vars(part)]
    for part in parts:
        part.forward = partial(_apart, part.forward, part)
    tensors = library("torchax.tensor", "torch")

    @wraps(original)
    def chosen(query: Any, *others: Any, **options: Any) -> Any:
        if isinstance(query, tensors.Tensor | tensors.View):
            return scaled_dot_product_attention(world, query, *others, **options)
        return original(query, *others, **options)

    if parts:
        functional.scaled_dot_product_attention = chosen
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = original
        for part in parts:
            del part.forward


def _functional() -> Any:
    return library("torch.nn.functional", "torch")


def _apart(forward: Any, part: Any, *arguments: Any, need_weights: bool = True, **options: Any) -> Any:
    if len(arguments) > 4 or not need_weights or (part.training and part.dropout > 0):
        return forward(*arguments, **({} if len(arguments) > 4 else {"need_weights": need_weights}), **options)
    output, _ = forward(*arguments, need_weights=False, **options)
    return output, forward(*arguments, need_weights=True, **options)[1]
