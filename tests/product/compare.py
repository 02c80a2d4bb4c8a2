"""The difference between two runs: their models, clients' own models, and histories with their costs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from fedloom.runs import Run
from fedloom.trees import flatten

UNEQUAL = ("round", "seconds")
"""Columns of a history that are not compared: rows are matched by round, and seconds are of the machine."""


@dataclass(frozen=True)
class Difference:
    """The difference between a run and the reference.

    Args:
        models: the largest difference of a number of a model, of the run's and of each client's own.
        history: the largest difference of a number of the history.
        compared: the columns of the history that were compared.
        missing: the columns of the reference that were not, for the run does not have them.
    """

    models: float
    history: float
    compared: tuple[str, ...]
    missing: tuple[str, ...]


def difference(run: Run, reference: Run, not_compared: Collection[str] = ()) -> Difference:
    """Return the difference between a run and the reference.

    Args:
        run: the run.
        reference: the run that it is compared with.
        not_compared: patterns of columns that are left out.
    """
    wanted = [name for name in reference.history.columns if name not in UNEQUAL and not matches(name, not_compared)]
    compared = tuple(name for name in wanted if name in run.history.columns)
    rows = {row["round"]: row for row in reference.history.rows}
    assert run.history.last("round") == reference.history.last("round")
    history = [apart(row[name], rows[row["round"]][name]) for row in run.history.rows for name in compared]
    mine, theirs = models(run, reference.clients), models(reference, reference.clients)
    assert mine.keys() == theirs.keys()
    missing = tuple(name for name in wanted if name not in compared)
    return Difference(largest([apart(mine[k], theirs[k]) for k in mine]), largest(history), compared, missing)


def models(run: Run, clients: int) -> dict[str, np.ndarray]:
    """Return all arrays of a run's model, and of the model of each client."""
    each = {"": run.variables} | {f"client {k}: ": run.of(k) for k in range(clients)}
    return {f"{whose}{name}": array for whose, model in each.items() for name, array in flatten(model).items()}


def apart(a: Any, b: Any) -> float:
    """Return the largest difference of two arrays, relative to numbers above 1.

    >>> apart([0.0, 300.0], [0.5, 400.0]), apart(np.ones(2), np.ones(3))
    (0.5, inf)
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(np.max(np.abs(a - b) / np.maximum(1, np.abs(b)))) if a.shape == b.shape else np.inf


def largest(differences: list[float]) -> float:
    """Return the largest of some differences; NaN if one of them is."""
    return float(np.max(differences))


def matches(name: str, patterns: Collection[str]) -> bool:
    """Return True if a name is like one of some patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
