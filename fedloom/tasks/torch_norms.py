"""Torch norms: PyTorch's normalising functions in the form of :func:`fedloom.tasks.normalisation.normalise`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fedloom.tasks.normalisation import along, normalise, over_groups, rescale
from fedloom.tasks.user_model import library


def norms() -> dict[Any, Callable[..., Any]]:
    """Return PyTorch's functions that are replaced; each replacement takes torchax's environment first."""
    functions = library("torch", "torch").nn.functional
    return {
        functions.batch_norm: _batch_norm,
        functions.instance_norm: _instance_norm,
        functions.group_norm: _group_norm,
        functions.layer_norm: _layer_norm,
    }


def _group_norm(world: Any, x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    array, weight, bias = world.t2j_iso((x, weight, bias))
    scale, shift = along(weight, array, [1]), along(bias, array, [1])
    found = normalise(array, range(2, array.ndim), eps, scale, shift, over_groups(1, num_groups))[0]
    return world.j2t_iso(found.astype(array.dtype))


def _layer_norm(
    world: Any, x: Any, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    array, weight, bias = world.t2j_iso((x, weight, bias))
    found = normalise(array, range(array.ndim - len(shape), array.ndim), eps, weight, bias)[0]
    return world.j2t_iso(found.astype(array.dtype))


def _batch_norm(world: Any, x: Any, *statistics: Any, **options: Any) -> Any:
    return _with_statistics(world, (0,), x, *statistics, **options)


def _instance_norm(
    world: Any,
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    return _with_statistics(world, (), x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def _with_statistics(
    world: Any,
    over: tuple[int, ...],
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Compute PyTorch's batch norm, or its instance norm, and move its running statistics.

    PyTorch normalises by the biased variance, and remembers the unbiased one.

    Args:
        world: torchax's environment.
        over: the axes of the means besides places: ``(0,)`` for batch norm, none for instance norm.
        x, running_mean, running_var, weight, bias, training, momentum, eps: as PyTorch's.
    """
    array, weight, bias = world.t2j_iso((x, weight, bias))
    scale, shift = along(weight, array, [1]), along(bias, array, [1])
    if not training:
        mean, variance = (along(a, array, [1]) for a in world.t2j_iso((running_mean, running_var)))
        return world.j2t_iso(rescale(array, mean, variance, eps, scale, shift).astype(array.dtype))
    axes = [*over, *range(2, array.ndim)]
    found, mean, variance = normalise(array, axes, eps, scale, shift)
    if running_mean is not None:
        count = math.prod(array.shape[axis] for axis in axes)
        for running, now in ((running_mean, mean), (running_var, variance * (count / max(count - 1, 1)))):
            fresh = world.j2t_iso(now.mean(0).reshape(-1).astype(world.t2j_iso(running).dtype))
            running.copy_(running * (1 - momentum) + fresh * momentum)
    return world.j2t_iso(found.astype(array.dtype))
