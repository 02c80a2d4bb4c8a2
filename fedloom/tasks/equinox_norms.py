"""Equinox norms: Equinox's normalising layers in the form of :func:`fedloom.tasks.normalisation.normalise`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import lax

from fedloom.tasks.normalisation import along, normalise, over_groups, rescale
from fedloom.tasks.user_model import library

if TYPE_CHECKING:
    from jaxtyping import Array

    from fedloom.tasks.replacing import Method, Replacement


def norms() -> dict[Method, Replacement]:
    """Return the methods of Equinox's layers that are replaced, and by what."""
    nn = library("equinox.nn", "equinox")
    return {
        (nn.LayerNorm, "__call__"): _layer,
        (nn.GroupNorm, "__call__"): _group,
        (nn.BatchNorm, "__call__"): _batch,
    }


def _layer(call: Any, layer: Any, x: Array, *state: Any, **options: Any) -> Any:
    if x.shape != layer.shape or jnp.iscomplexobj(x):
        return call(layer, x, *state, **options)
    found = normalise(x, range(x.ndim), layer.eps, layer.weight, layer.bias)[0].astype(x.dtype)
    return _with_state(found, *state, **options)


def _group(call: Any, layer: Any, x: Array, *state: Any, **options: Any) -> Any:
    channels = len(x)
    if channels % layer.groups or layer.channels not in (None, channels) or jnp.iscomplexobj(x):
        return call(layer, x, *state, **options)
    scale, shift = (along(a, x, [0]) for a in (layer.weight, layer.bias))
    found = normalise(x, range(1, x.ndim), layer.eps, scale, shift, over_groups(0, layer.groups))[0]
    return _with_state(found.astype(x.dtype), *state, **options)


def _batch(call: Any, layer: Any, x: Array, state: Any, *, key: Any = None, inference: bool | None = None) -> Any:
    """Compute a batch norm; one that normalises by running means while it is trained stays as it is."""
    if layer.mode != "batch" or jnp.iscomplexobj(x):
        return call(layer, x, state, key=key, inference=inference)
    scale, shift = (along(a, x, [0]) for a in (layer.weight, layer.bias))
    count, running = state.get(layer.batch_counter), state.get(layer.batch_state_index)
    if layer.inference if inference is None else inference:
        unbiased = jnp.where(count == 0, 1, 1 - layer.momentum**count)
        mean, variance = (along(a / unbiased, x, [0]) for a in running)
        found = rescale(x, mean, variance, layer.eps, scale, shift)
    else:
        everywhere = partial(lax.pmean, axis_name=layer.axis_name)
        found, *means = normalise(x, range(1, x.ndim), layer.eps, scale, shift, everywhere)
        moved = tuple(
            old * layer.momentum + lax.stop_gradient(new).reshape(-1) * (1 - layer.momentum)
            for old, new in zip(running, means, strict=True)
        )
        state = state.set(layer.batch_counter, count + 1).set(layer.batch_state_index, moved)
    return found.astype(jnp.result_type(x, *(a for a in (scale, shift) if a is not None))), state


def _with_state(found: Array, *state: Any, **options: Any) -> Any:
    """Return what the layer returns: with the state, if it was given one."""
    given = [*state, *(options[name] for name in options if name == "state")]
    return (found, given[0]) if given else found
