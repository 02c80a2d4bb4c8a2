"""Flax norms: the normalising layers of Linen and NNX in the form of :func:`fedloom.tasks.normalisation.normalise`.

Flax's default (``use_fast_variance``) computes the variance as E[x²] - E[x]², which is inaccurate
far from zero; this form is as fast, and accurate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import lax

from fedloom.tasks.normalisation import Average, along, normalise, over_groups, rescale, unchanged
from fedloom.tasks.user_model import library

if TYPE_CHECKING:
    from jaxtyping import Array

    from fedloom.tasks.replacing import Method, Replacement

Affine = tuple["Array | None", "Array | None"]
"""The scale and the shift, in shapes that can be broadcast with the array."""
Kind = tuple[list[int], list[int], Average]
"""The axes of a layer's means, the axes of its parameters, and how means of groups are averaged."""


def norms() -> dict[Method, Replacement]:
    """Return the methods of NNX's layers that are replaced, and by what."""
    nnx = library("flax.nnx", "flax")
    return {
        (nnx.BatchNorm, "__call__"): _nnx_batch,
        (nnx.LayerNorm, "__call__"): _nnx_other(_layer),
        (nnx.GroupNorm, "__call__"): _nnx_other(_group),
        (nnx.InstanceNorm, "__call__"): _nnx_other(_instance),
    }


def linen_norms() -> AbstractContextManager[None]:
    """Return a context in which this thread's calls of Linen's normalising layers have the form of this module."""
    linen = library("flax.linen", "flax")
    forms = {
        linen.BatchNorm: _linen_batch,
        linen.LayerNorm: _linen_other(_layer),
        linen.GroupNorm: _linen_other(_linen_group),
        linen.InstanceNorm: _linen_other(_instance),
    }
    own = {kind.__call__.__wrapped__: form for kind, form in forms.items()}

    def intercept(call: Callable[..., Any], args: Any, options: Any, context: Any) -> Any:
        form = own.get(context.orig_method.func)
        return call(*args, **options) if form is None else form(call, context.module, *args, **options)

    return linen.intercept_methods(intercept)


def _linen_batch(call: Any, layer: Any, x: Any, use_running_average: bool | None = None, mask: Any = None) -> Any:
    if not _is_replaceable(layer, x, mask) or layer.is_initializing():
        return call(x, use_running_average, mask=mask)
    known = library("flax.linen", "flax").merge_param(
        "use_running_average", layer.use_running_average, use_running_average
    )
    features = _axes(layer.axis, x)
    sizes = [x.shape[axis] for axis in features]
    running = [
        layer.variable("batch_stats", "mean", jnp.zeros, sizes, jnp.float32),
        layer.variable("batch_stats", "var", jnp.ones, sizes, jnp.float32),
    ]
    affine = _linen_affine(layer, x, features)
    if known:
        return _from_running(layer, x, features, [v.value for v in running], affine)
    found, means = _from_batch(layer, x, features, affine)
    for variable, now in zip(running, means, strict=True):
        variable.value = layer.momentum * variable.value + (1 - layer.momentum) * now
    return found


def _nnx_batch(call: Any, layer: Any, x: Any, use_running_average: bool | None = None, *, mask: Any = None) -> Any:
    known = layer.use_running_average if use_running_average is None else use_running_average
    if known is None or not _is_replaceable(layer, x, mask):
        return call(layer, x, use_running_average, mask=mask)
    features, (scale, shift) = _axes(layer.axis, x), _nnx_affine(layer)
    x, *running, scale, shift = layer.promote_dtype(
        (x, layer.mean[...], layer.var[...], scale, shift), dtype=layer.dtype
    )
    affine = along(scale, x, features), along(shift, x, features)
    if known:
        return _from_running(layer, x, features, running, affine)
    found, means = _from_batch(layer, x, features, affine)
    for variable, now in zip((layer.mean, layer.var), means, strict=True):
        variable[...] = layer.momentum * variable[...] + (1 - layer.momentum) * now
    return found


def _from_running(layer: Any, x: Array, features: Sequence[int], running: Sequence[Array], affine: Affine) -> Array:
    mean, variance = running
    return _typed(
        rescale(x, along(mean, x, features), along(variance, x, features), layer.epsilon, *affine), layer, x, affine
    )


def _from_batch(layer: Any, x: Array, features: Sequence[int], affine: Affine) -> tuple[Array, list[Array]]:
    """Return the normalised array, and the mean and the variance of each feature."""
    axes = [axis for axis in range(x.ndim) if axis not in features]
    found, *means = normalise(x, axes, layer.epsilon, *affine)
    sizes = [x.shape[axis] for axis in features]
    return _typed(found, layer, x, affine), [lax.stop_gradient(mean).reshape(sizes) for mean in means]


def _layer(layer: Any, x: Array) -> Kind:
    return _axes(layer.reduction_axes, x), _axes(layer.feature_axes, x), unchanged


def _instance(layer: Any, x: Array) -> Kind | None:
    features = _axes(layer.feature_axes, x)
    return None if 0 in features else ([axis for axis in range(1, x.ndim) if axis not in features], features, unchanged)


def _group(layer: Any, x: Array) -> Kind | None:
    last, counts = x.ndim - 1, [n for n in (layer.num_groups, layer.group_size) if n is not None]
    axes = _axes(range(1, x.ndim) if layer.reduction_axes is None else layer.reduction_axes, x)
    if last not in axes or not counts or counts[0] < 1 or x.shape[-1] % counts[0]:
        return None
    groups = layer.num_groups or x.shape[-1] // layer.group_size
    return [axis for axis in axes if axis != last], [last], over_groups(last, groups)


def _linen_group(layer: Any, x: Array) -> Kind | None:
    return None if (layer.num_groups is None) == (layer.group_size is None) else _group(layer, x)


def _linen_other(find: Callable[[Any, Array], Kind | None]) -> Callable[..., Any]:
    def form(call: Any, layer: Any, x: Any, *, mask: Any = None) -> Any:
        kind = find(layer, x) if _is_replaceable(layer, x, mask) else None
        if kind is None:
            return call(x, mask=mask)
        axes, features, average = kind
        return _normalised(layer, x, axes, _linen_affine(layer, x, features), average)

    return form


def _nnx_other(find: Callable[[Any, Array], Kind | None]) -> Callable[..., Any]:
    def form(call: Any, layer: Any, x: Any, *, mask: Any = None) -> Any:
        kind = find(layer, x) if _is_replaceable(layer, x, mask) else None
        if kind is None:
            return call(layer, x, mask=mask)
        axes, features, average = kind
        x, scale, shift = layer.promote_dtype((x, *_nnx_affine(layer)), dtype=layer.dtype)
        return _normalised(layer, x, axes, (along(scale, x, features), along(shift, x, features)), average)

    return form


def _normalised(layer: Any, x: Array, axes: Sequence[int], affine: Affine, average: Average) -> Array:
    return _typed(normalise(x, axes, layer.epsilon, *affine, average)[0], layer, x, affine)


def _is_replaceable(layer: Any, x: Any, mask: Any) -> bool:
    """Return True for real numbers of one device, all of which count."""
    wide = getattr(layer, "force_float32_reductions", True)
    return mask is None and layer.axis_name is None and wide and not jnp.iscomplexobj(x)


def _linen_affine(layer: Any, x: Array, features: Sequence[int]) -> Affine:
    sizes = [x.shape[axis] for axis in features]
    scale = layer.param("scale", layer.scale_init, sizes, layer.param_dtype) if layer.use_scale else None
    shift = layer.param("bias", layer.bias_init, sizes, layer.param_dtype) if layer.use_bias else None
    return along(scale, x, features), along(shift, x, features)


def _nnx_affine(layer: Any) -> Affine:
    scale, shift = (None if v is None else v[...] for v in (layer.scale, layer.bias))
    return scale, shift


def _axes(axes: int | Sequence[int], x: Array) -> list[int]:
    """Return axes in order, counted from the first."""
    return sorted({axis % x.ndim for axis in ([axes] if isinstance(axes, int) else axes)})


def _typed(found: Array, layer: Any, x: Array, affine: Affine) -> Array:
    """Return the array in the type in which Flax returns it."""
    dtypes = library("flax.linen.dtypes", "flax")
    return found.astype(dtypes.canonicalize_dtype(x, *affine, dtype=layer.dtype))
