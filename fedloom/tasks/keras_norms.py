"""Keras norms: Keras's normalising layers in the form of :func:`fedloom.tasks.normalisation.normalise`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from fedloom.tasks.normalisation import along, normalise, over_groups, rescale
from fedloom.tasks.summed import summed
from fedloom.tasks.user_model import library

if TYPE_CHECKING:
    from jaxtyping import Array

    from fedloom.tasks.replacing import Method, Replacement

PARTS = ("_moments", "_reshape_into_groups", "_apply_normalization")
"""The methods by which subclasses can change what a normalising layer computes, besides ``call``."""


def norms() -> dict[Method, Replacement]:
    """Return the methods of Keras's layers that are replaced, and by what."""
    layers = library("keras.layers", "keras")
    return {
        (layers.BatchNormalization, "call"): _batch,
        (layers.GroupNormalization, "call"): _group,
        (layers.LayerNormalization, "call"): _layer,
    }


def _batch(call: Any, layer: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
    if mask is not None or layer.renorm or not _is_replaceable(layer, inputs):
        return call(layer, inputs, training=training, mask=mask)
    axis = layer.axis % inputs.ndim
    scale, shift = (_along(v, inputs, [axis]) for v in (layer.gamma, layer.beta))
    if training and layer.trainable:
        axes = [i for i in range(inputs.ndim) if i != axis]
        found, *means = normalise(inputs, axes, layer.epsilon, scale, shift)
        for variable, mean in zip((layer.moving_mean, layer.moving_variance), means, strict=True):
            now = lax.stop_gradient(mean).reshape(-1)
            variable.assign(_value(variable, now.dtype) * layer.momentum + now * (1 - layer.momentum))
    else:
        moving = [_value(v, summed(inputs)) for v in (layer.moving_mean, layer.moving_variance)]
        mean, variance = (along(v, inputs, [axis]) for v in moving)
        found = rescale(inputs, mean, variance, layer.epsilon, scale, shift)
    return found.astype(layer.compute_dtype)


def _group(call: Any, layer: Any, inputs: Any) -> Any:
    if not _is_replaceable(layer, inputs):
        return call(layer, inputs)
    axis = layer.axis % inputs.ndim
    axes = [i for i in range(1, inputs.ndim) if i != axis]
    scale, shift = (_along(v, inputs, [axis]) for v in (layer.gamma, layer.beta))
    found = normalise(inputs, axes, layer.epsilon, scale, shift, over_groups(axis, layer.groups))[0]
    return found.astype(inputs.dtype).astype(layer.compute_dtype)


def _layer(call: Any, layer: Any, inputs: Any) -> Any:
    if layer.rms_scaling or not _is_replaceable(layer, inputs):
        return call(layer, inputs)
    axes = [axis % inputs.ndim for axis in layer.axis]
    scale, shift = (_along(v, inputs, axes) for v in (layer.gamma, layer.beta))
    found = normalise(inputs, axes, layer.epsilon, scale, shift)[0]
    return found.astype(inputs.dtype).astype(layer.compute_dtype)


def _is_replaceable(layer: Any, inputs: Any) -> bool:
    """Return True for real arrays and a layer whose class does not change a part of Keras's own computation."""
    owner = next(kind for kind in type(layer).__mro__ if kind.__module__.startswith("keras."))
    own = all(getattr(type(layer), part, None) is getattr(owner, part, None) for part in PARTS)
    return own and isinstance(inputs, jax.Array) and not jnp.iscomplexobj(inputs)


def _along(variable: Any, inputs: Array, axes: Sequence[int]) -> Array | None:
    """Return a layer's variable in a shape that can be broadcast with its inputs, if it has one."""
    if variable is None:
        return None
    return along(_value(variable, summed(inputs)), inputs, axes)


def _value(variable: Any, dtype: jax.typing.DTypeLike) -> Array:
    """Return the number that a variable has inside ``stateless_call``."""
    return jnp.asarray(library("keras", "keras").ops.convert_to_tensor(variable), dtype)
