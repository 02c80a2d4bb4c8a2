"""What tests of normalising layers share: outputs and gradients of cases, and the numbers of float64."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import jax
import numpy as np
from user_models import close

EPSILON = 0.1  # large enough to show in every number
Case = tuple[Callable[..., Any], tuple[np.ndarray, ...]]
"""(function → (outputs, statistics), its arguments): gradients are those for the arguments."""
SMALL = ("batch", "instance", "group", "layer")
"""The cases that are tested with one example too."""
quick = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def drawn(*shape: int, mean: float = 0.0) -> np.ndarray:
    return (mean + np.random.default_rng(sum(shape)).normal(size=shape)).astype(np.float32)


def cotangent(shape: tuple[int, ...]) -> np.ndarray:
    return np.cos(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


def outcomes(cases: Mapping[str, Case], context: AbstractContextManager[Any] | None = None) -> Any:
    """The outputs, gradients and statistics of each case, traced inside a context."""

    def every(arguments: dict[str, Any]) -> Any:
        found = {}
        for name, (function, _) in cases.items():
            y, back, statistics = jax.vjp(function, *arguments[name], has_aux=True)
            found[name] = {"y": y, "gradients": back(cotangent(y.shape)), "statistics": statistics}
        return found

    with context or nullcontext():
        return jax.device_get(quick(every)({name: arguments for name, (_, arguments) in cases.items()}))


def agree(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    jax.tree.map(partial(close, tolerance=tolerance), found, wanted)


def exact(x: np.ndarray, axes: tuple[int, ...], groups: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A norm without parameters and its gradient for x, in float64; groups are of the last axis."""
    wide, d = x.astype(np.float64), cotangent(x.shape).astype(np.float64)
    if groups:
        wide, d = (a.reshape(*x.shape[:-1], groups, -1) for a in (wide, d))
        axes = (*axes, wide.ndim - 1)
    mean = partial(np.mean, axis=axes, keepdims=True)
    off = wide - mean(wide)
    a = 1 / np.sqrt(mean(off * off) + EPSILON)
    y = off * a
    return y.reshape(x.shape), (a * (d - mean(d) - y * mean(d * y))).reshape(x.shape)


def error(found: Any, wanted: np.ndarray) -> float:
    """The largest difference, as a share of the largest number."""
    return float(np.abs(np.asarray(found, np.float64) - wanted).max() / np.abs(wanted).max())


def is_tested(name: str, rows: int) -> bool:
    return rows > 1 or name in SMALL
