"""Attention: softmax(scale · Q·Kᵀ + bias)·V as one operation of a traced program (Vaswani et al. 2017, section 3.2.1).

The adapters put it in place of the attention of PyTorch, Keras and Flax. It is computed by
``jax.nn.dot_product_attention``: in bfloat16 on an NVIDIA GPU by cuDNN's flash attention where that applies, by XLA
otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import fedloom.kernels.processor as processor
from fedloom.machine import devices

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float

by_jax: Any = jax.nn.dot_product_attention
operation = Primitive("attention")


def attention(
    q: Float[Array, "batch t heads width"],
    k: Float[Array, "batch s heads width"],
    v: Float[Array, "batch s heads width"],
    *,
    bias: Float[Array, "#batch #heads #t #s"] | None = None,
    mask: Bool[Array, "#batch #heads #t #s"] | None = None,
    scale: float | None = None,
    is_causal: bool = False,
) -> Float[Array, "batch t heads width"]:
    """Return softmax(scale · Q·Kᵀ + bias)·V; a query that may attend to no key gets zeros.

    Args:
        q, k, v: queries, keys and values.
        bias: what is added to the logits; -∞ means that the query must not attend to the key.
        mask: whether a query may attend to a key.
        scale: the factor of the logits, by default 1 / √width.
        is_causal: whether a query attends only to keys at its own place and before it.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if bias is not None:
        finite = bias > -jnp.inf
        bias, mask = jnp.where(finite, bias, 0), finite if mask is None else mask & finite
    extras = [a for a in (bias, mask) if a is not None]
    out = operation.bind(q, k, v, *extras, scale=scale, is_causal=is_causal, masked=mask is not None)
    if mask is None:
        return out
    t, s = q.shape[1], k.shape[1]
    seen = mask & jnp.tril(jnp.ones((t, s), bool)) if is_causal else mask
    return jnp.where(jnp.moveaxis(jnp.broadcast_to(seen, (*seen.shape[:2], t, s)).any(-1), 1, 2)[..., None], out, 0)


def by_xla(*arrays: Array, masked: bool, **options: Any) -> Array:
    """Return attention as XLA compiles it."""
    return by_jax(*arrays[:3], *optional(arrays[3:], masked), implementation="xla", **options)


def by_cudnn(*arrays: Array, masked: bool, **options: Any) -> Array:
    """Return attention by cuDNN."""
    return by_jax(*arrays[:3], *optional(arrays[3:], masked), implementation="cudnn", **options)


def optional(extras: tuple[Array, ...], masked: bool) -> tuple[Array | None, Array | None]:
    """Return the bias and the mask, where there are some."""
    return (extras[0] if len(extras) > masked else None, extras[-1] if masked else None)


def fastest(*arrays: Array, masked: bool, **options: Any) -> Array:
    """Return attention in the form that is fast where it is compiled for.

    cuDNN computes no gradient for most shapes of a bias, so attention with one is left to XLA. On a CPU, kernels
    compute attention without bias and mask.
    """
    if has_kernel(*arrays):
        from fedloom.kernels.attention import attend  # needs llvmlite

        return attend(options["scale"], options["is_causal"], *arrays)
    xla, cudnn = (partial(form, masked=masked, **options) for form in (by_xla, by_cudnn))
    if arrays[0].dtype != jnp.bfloat16 or len(arrays) - 3 > masked or not has_cuda() or not traces(cudnn, *arrays):
        return xla(*arrays)
    return lax.platform_dependent(*arrays, cuda=cudnn, default=xla)


def has_kernel(q: Array, k: Array, v: Array, *extras: Array) -> bool:
    """Return whether a kernel computes the attention of such arrays, in which no heads share their keys."""
    fits = q.shape[2:] == k.shape[2:] == v.shape[2:] and all(a.dtype == jnp.float32 and a.size for a in (q, k, v))
    return fits and not extras and devices()[0].platform == "cpu" and bool(processor.width())


@cache
def has_cuda() -> bool:
    """Return whether JAX computes on an NVIDIA GPU."""
    return jax.default_backend() == "gpu" and "cuda" in jax.devices()[0].client.platform_version


def traces(cudnn: Any, *arrays: Array) -> bool:
    """Return whether cuDNN takes such arrays, in training too: it refuses others when it is traced."""

    def trained(q: Array, k: Array, v: Array) -> tuple[Array, ...]:
        out, pull = jax.vjp(lambda q, k, v: cudnn(q, k, v, *arrays[3:]), q, k, v)
        return pull(out)

    try:
        jax.eval_shape(trained, *arrays[:3])
    except (NotImplementedError, RuntimeError, TypeError, ValueError):
        return False
    return True


def _batched(arrays: tuple[Array, ...], axes: tuple[int | None, ...], **options: Any) -> tuple[Array, int]:
    """Several attentions side by side are one of a larger batch."""
    many = next(a.shape[axis] for a, axis in zip(arrays, axes, strict=True) if axis is not None)
    batch = arrays[0].shape[1 if axes[0] == 0 else 0] if axes[0] is not None else arrays[0].shape[0]
    whole = []
    for a, axis in zip(arrays, axes, strict=True):
        a = jnp.moveaxis(a, axis, 0) if axis is not None else jnp.broadcast_to(a, (many, *a.shape))
        a = a if a.shape[1] == batch else jnp.broadcast_to(a, (many, batch, *a.shape[2:]))
        whole.append(a.reshape(many * batch, *a.shape[2:]))
    out = operation.bind(*whole, **options)
    return out.reshape(many, batch, *out.shape[1:]), 0


operation.def_impl(partial(jax.jit, static_argnames=("scale", "is_causal", "masked"))(by_xla))
operation.def_abstract_eval(lambda q, *others, **options: q.update(shape=(*q.shape[:3], others[1].shape[3])))  # noqa: ARG005
ad.primitive_jvps[operation] = lambda primals, tangents, **options: jax.jvp(
    partial(by_xla, **options), primals, tuple(map(ad.instantiate_zeros, tangents))
)
batching.primitive_batchers[operation] = _batched
mlir.register_lowering(operation, mlir.lower_fun(by_xla, multiple_results=False))


@contextmanager
def calls_of_jax() -> Iterator[None]:
    """Inside, ``jax.nn.dot_product_attention``, which Keras and Flax call, is this module's operation where it fits."""
    before = jax.nn.dot_product_attention
    jax.nn.dot_product_attention = as_jax
    try:
        yield
    finally:
        jax.nn.dot_product_attention = by_jax if before is as_jax else before


def as_jax(query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, **options: Any) -> Any:
    """Do what ``jax.nn.dot_product_attention`` does."""
    chosen = {n: o for n, o in options.items() if o is not None and o is not False}
    plain = set(chosen) <= {"scale", "is_causal", "implementation"} and chosen.get("implementation", "xla") == "xla"
    arrays = [jnp.asarray(a) for a in (query, key, value)]
    same = len({a.dtype for a in arrays}) == 1 and {a.ndim for a in arrays} == {4}
    extras = [jnp.asarray(a) for a in (bias, mask) if a is not None]
    fits = all(a.ndim == 4 for a in extras) and (mask is None or extras[-1].dtype == bool)
    if not (plain and same and fits):
        return by_jax(query, key, value, bias, mask, **options)
    scale = float(chosen.get("scale", 1 / math.sqrt(arrays[0].shape[-1])))
    return operation.bind(
        *arrays, *extras, scale=scale, is_causal=bool(chosen.get("is_causal")), masked=mask is not None
    )
