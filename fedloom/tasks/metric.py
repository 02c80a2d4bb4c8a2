"""Metric: a measure of a model's outputs, with the direction in which it improves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fedloom.direction import STATISTIC, Better, declared
from fedloom.errors import ArgumentError, require

Over = Literal["example", "split"]


@dataclass(frozen=True)
class Metric:
    """A measure of a model's outputs; build it with :func:`metric`.

    Arguments:
        function: (outputs, batch) → the value for each example, or one number.
        better: whether a higher or a lower value is better; ``None`` if that is not declared.
        over: what the function sees at once: any examples, or all of a part of the data.
    """

    function: Callable[..., Any]
    better: Better | None = None
    over: Over = "example"


def metric(function: Callable[..., Any], better: Better | None = None, over: Over = "example") -> Metric:
    """Return a metric to give to a task, with the direction in which it improves.

    A target, patience, ``history.best`` and the exclusion of clients need the direction. A metric without one is only
    recorded. The names ``accuracy`` (higher is better), ``loss`` and ``error`` (lower) are fedloom's own.

    Args:
        function: (outputs, batch) → one value for each example, of shape (batch,), of which the mean is recorded; with
            ``over="split"``, one number.
        better: ``"higher"`` or ``"lower"``.
        over: ``"example"``, or ``"split"`` for a metric that is not a mean over examples (F1, AUROC, R²). The function
            is then called once for each model and part of the data, with all outputs, and a batch of all columns but
            ``x``, as NumPy arrays, so that it may call scikit-learn.

    >>> import jax.numpy as jnp
    >>> mae = metric(lambda outputs, batch: jnp.abs(outputs - batch["y"]), better="lower")
    >>> from fedloom.tasks import from_function
    >>> linear = from_function(
    ...     lambda key: jnp.zeros(3), lambda w, x: x @ w, loss="squared_error", metrics={"mae": mae})
    >>> linear.directions["mae"]
    'lower'

    A metric over all predictions of a part of the data:

    >>> from sklearn.metrics import f1_score
    >>> f1 = metric(lambda outputs, batch: f1_score(batch["y"], outputs > 0), better="higher", over="split")
    """
    require(callable(function), "metric", "a function (outputs, batch) → values", function)
    require(better is None or better in get_args(Better), "better", '"higher" or "lower"', better)
    require(over in get_args(Over), "over", '"example" or "split"', over)
    return Metric(function, better, over)


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
