"""Monitor: the column of a history that a target, patience and the best round look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedloom.algorithms import Method
from fedloom.data import FederatedData
from fedloom.direction import require_direction
from fedloom.engines.evaluate import measured_models
from fedloom.errors import choose, require
from fedloom.measures import OWN, OWN_ON_ALL, PARTS, SHARED, Measure, parse
from fedloom.runs.checks import measured
from fedloom.runs.settings import Settings
from fedloom.tasks import Task

PREFERRED = (OWN, SHARED, OWN_ON_ALL)
"""Which models are monitored if the user names no column: clients' own models, on their own data, where they have such;
else the shared model."""


def watching(settings: Settings, algorithm: Method, task: Task, data: FederatedData) -> Settings:
    """Return the settings with the column that is monitored. Its part of the data is then evaluated in any case.

    If the user names no column, it is the accuracy, or the loss where there is no accuracy, on validation data, or on
    test data where there is no validation data.

    Raises:
        ArgumentError: the data has no such part, or the run has no such column.
    """
    stop = settings.stop
    if not stop.watches:
        return settings
    column = stop.monitor or default_monitor(algorithm, task, data)
    measure = parse(column)
    need = "a part of the data and a measure, such as validation_accuracy"
    require(measure is not None and measure.part in data.splits, "monitor", need, column)
    assert measure is not None
    if not task.client:
        choose("monitor", column, dict.fromkeys(columns(algorithm, task, data, (measure.part,))))
    require_direction(column, task.directions)
    return replace(settings, stop=replace(stop, monitor=column))


def default_monitor(
    algorithm: Method, task: Task, data: FederatedData, parts: Sequence[str] = ("validation", "test")
) -> str:
    """Return the column that is monitored if the user names none: of the first of some parts that the data has."""
    part = next((part for part in parts if part in data.splits), None)
    need = "named (--monitor train_loss), since the data has no validation and no test part, or left alone"
    require(part is not None, "monitor", need, None)
    assert part is not None
    kinds = measured_models(algorithm, data, part)
    metrics = {"accuracy"} if task.client else measured(task, data)
    metric = "accuracy" if "accuracy" in metrics else "loss"
    return Measure(next(models for models in PREFERRED if models in kinds), part, metric).column


def columns(algorithm: Method, task: Task, data: FederatedData, splits: Sequence[str]) -> list[str]:
    """Return the columns that a run has of its models on some parts of the data."""
    metrics = [*sorted(measured(task, data)), *(name for name, _ in task.overall)]
    return [Measure(models, part, metric).column for part in PARTS if part in splits
            for models in measured_models(algorithm, data, part) for metric in metrics]  # fmt: skip
