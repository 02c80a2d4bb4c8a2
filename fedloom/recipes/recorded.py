"""Recorded: the experiment of a record, as the fields that differ from fixed defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fedloom.runs.experiment import Experiment

DEFAULTS: Mapping[str, Any] = {"rounds": 200, "target": 0.97}
"""Values that a record leaves out, where they are not the defaults of an experiment."""


def recorded_fields(experiment: Experiment) -> dict[str, Any]:
    """Return the fields of an experiment that a record holds.

    >>> recorded_fields(Experiment(lr=0.2, rounds=200))
    {'lr': 0.2, 'target': None}
    """
    usual = {f.name: DEFAULTS.get(f.name, f.default) for f in dataclasses.fields(experiment)}
    return {name: value for name, default in usual.items() if (value := getattr(experiment, name)) != default}


def recorded_experiment(fields: Mapping[str, Any]) -> Experiment:
    """Return the experiment of a record.

    >>> recorded_experiment({"lr": 0.2, "target": None}) == Experiment(lr=0.2, rounds=200)
    True
    """
    return Experiment().replace(**{**DEFAULTS, **fields})
