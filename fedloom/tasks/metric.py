"""Metric: a measure of a model's outputs, with the direction in which it improves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fedloom.direction import STATISTIC, Better, declared
from fedloom.errors import ArgumentError, require

Over = Literal["example"]


@dataclass(frozen=True)
class Metric:
    """A measure of a model's outputs; build it with :func:`metric`.

    Arguments:
        function: (outputs, batch) → the value for each example.
        better: whether a higher or a lower value is better; ``None`` if that is not declared.
    """

    function: Callable[..., Any]
    better: Better | None = None


def metric(function: Callable[..., Any], better: Better | None = None) -> Metric:
    """Return a metric to give to a task, with the direction in which it improves.

    A target, patience, ``history.best`` and the exclusion of clients need the direction. A metric without one is only
    recorded. The names ``accuracy`` (higher is better), ``loss`` and ``error`` (lower) are fedloom's own.

    Args:
        function: (outputs, batch) → one value for each example, of shape (batch,).
        better: ``"higher"`` or ``"lower"``.

    >>> import jax.numpy as jnp
    >>> mae = metric(lambda outputs, batch: jnp.abs(outputs - batch["y"]), better="lower")
    >>> from fedloom.tasks import from_function
    >>> linear = from_function(
    ...     lambda key: jnp.zeros(3), lambda w, x: x @ w, loss="squared_error", metrics={"mae": mae})
    >>> linear.directions["mae"]
    'lower'
    """
    require(callable(function), "metric", "a function (outputs, batch) → values", function)
    require(better is None or better in get_args(Better), "better", '"higher" or "lower"', better)
    return Metric(function, better)


def named(metrics: Mapping[str, Any]) -> dict[str, Metric]:
    """Return a task's own metrics by name, plain functions as metrics without a direction."""
    found = {}
    for name, given in metrics.items():
        if not isinstance(given, Metric) and not callable(given):
            raise ArgumentError(
                f'metrics["{name}"]', "a function (outputs, batch) → values, or fl.tasks.metric(…)", given
            )
        found[name] = given if isinstance(given, Metric) else metric(given)
        require(isinstance(name, str) and name.isidentifier(), "metrics", "named by letters, digits and _", name)
        require(name != "count", "metrics", "named otherwise: `count` is what the values are divided by", name)
        require(not STATISTIC.fullmatch(name), "metrics", "named otherwise: columns over users end so", name)
    declared({name: one.better for name, one in found.items()})
    return found
