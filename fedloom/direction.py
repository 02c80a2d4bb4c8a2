"""Direction: whether a higher or a lower value of a metric is better.

A task declares the direction of each of its metrics. Everything that ranks values (targets, patience, the best row, the
worst users, the exclusion of clients) asks for that direction and refuses a metric without one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

from fedloom.errors import UnknownDirection, require

Better = Literal["higher", "lower"]
Directions = Mapping[str, Better]
"""Metric → whether a higher or a lower value is better; a metric that is missing has no direction."""

BUILT_IN: Directions = MappingProxyType({"accuracy": "higher", "loss": "lower", "error": "lower"})
"""The directions of fedloom's own metrics. These three names are reserved: they mean the same in every task."""

COLUMN = re.compile(r"(?:[a-z]+_)*?(?:train|validation|test|clients|before|after|global_before|global)_(?P<metric>.+)")
STATISTIC = re.compile(r"(?P<metric>.+)_(?:worst|q\d+)")
"""A statistic of a metric over users; a user's own metric may not be named like one."""


def declared(directions: Mapping[str, Better | None]) -> tuple[tuple[str, Better], ...]:
    """Return the directions that a user declares of metrics of their own, without those that are ``None``.

    >>> declared({"loss": "higher"})
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: better must be "lower" for `loss`, a name that fedloom reserves (choose another \
name), but is 'higher'
    """
    for name, better in directions.items():
        require(better is None or better in get_args(Better), "better", f'"higher" or "lower" for `{name}`', better)
        own = BUILT_IN.get(name)
        need = f'"{own}" for `{name}`, a name that fedloom reserves (choose another name)'
        require(own is None or better in (None, own), "better", need, better)
    return tuple((name, better) for name, better in directions.items() if better)


def metric_of(column: str) -> str | None:
    """Return the metric that a column of a history holds, or ``None`` for a cost such as ``seconds``.

    A column is named ``<scope>_<part of the data>_<metric>``, where the scope is often missing, and with ``_worst`` or
    a quantile at its end for a statistic over users.

    >>> metric_of("test_log_loss"), metric_of("users_after_accuracy_worst"), metric_of("seconds")
    ('log_loss', 'accuracy', None)
    """
    found = COLUMN.fullmatch(column)
    if found is None:
        return None
    over_users = STATISTIC.fullmatch(found["metric"])
    return (over_users or found)["metric"]


def direction_of(column: str, directions: Directions) -> Better | None:
    """Return the direction of a column's metric, or ``None`` where none is declared and for a cost.

    >>> direction_of("test_mae", {"mae": "lower"}), direction_of("seconds", BUILT_IN)
    ('lower', None)
    """
    metric = metric_of(column)
    return None if metric is None else directions.get(metric)


def require_direction(column: str, directions: Directions) -> Better:
    """Return the direction of a column's metric.

    Raises:
        UnknownDirection: the column is a cost, or nobody has declared a direction for its metric.

    >>> require_direction("seconds", BUILT_IN)
    Traceback (most recent call last):
    fedloom.errors.UnknownDirection: 'seconds' has no best value: it is a cost, not a metric such as test_accuracy
    """
    better = direction_of(column, directions)
    if better is not None:
        return better
    metric = metric_of(column)
    if metric is None:
        raise UnknownDirection(f"{column!r} has no best value: it is a cost, not a metric such as test_accuracy")
    raise UnknownDirection(
        f"nobody has declared whether a higher or a lower {column!r} is better: give the task "
        f'metrics={{"{metric}": fl.tasks.metric(function, better="lower")}}, or better="higher"; a class of clients '
        f'with code of their own declares it by an attribute, better = {{"{metric}": "lower"}}'
    )
