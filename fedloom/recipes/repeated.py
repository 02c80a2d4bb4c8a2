"""Repeated: one experiment with several seeds, of which curves and the last round's users are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from fedloom.engines import compiled
from fedloom.errors import DivergedError
from fedloom.recipes.conduct import Conduct
from fedloom.recipes.series import Columns, Kept
from fedloom.runs.experiment import Experiment
from fedloom.runs.fitting import fine_tune
from fedloom.runs.history import History
from fedloom.runs.prepare import federated
from fedloom.runs.result import Run
from fedloom.runs.users import Users

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, and half the width of its confidence interval."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:.2%} ± {100 * self.half:.2f}"

    @property
    def points(self) -> str:
        """A difference, in percentage points, with its interval."""
        low, high = self.mean - self.half, self.mean + self.half
        return f"{100 * self.mean:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]"

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return abs(self.mean) > self.half


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of some values and its 95 % interval, by Student's t.

    >>> str(estimate([0.9, 0.92, 0.94]))
    '92.00% ± 4.97'
    """
    many = len(values)
    spread = float(np.std(values, ddof=1)) / many**0.5 if many > 1 else float("nan")
    return Estimate(float(np.mean(values)), spread * float(stats.t.ppf((1 + CONFIDENCE) / 2, max(many - 1, 1))))


def together(seeds: int) -> Callable[[Experiment, Conduct], Columns]:
    """What runs an experiment with so many seeds on the same partition, as few programs as possible; it keeps the
    curves of what is evaluated.
    """

    def make(e: Experiment, conduct: Conduct) -> Columns:
        data = federated(e)
        task, algorithm = e.build_task(data), e.build_algorithm()
        engine, labels = compiled(), [f"seed {seed}" for seed in range(seeds)]
        size = engine.group(data, task, algorithm)
        columns: dict[str, list[float]] = {}
        for start in range(0, seeds, size):
            group = list(range(start, min(start + size, seeds)))
            names = [labels[seed] for seed in group]
            runs = conduct.train(data, task, [algorithm] * len(group), group, e.settings(), names, engine)
            for seed, run in zip(group, finished(conduct.whole(runs)), strict=True):
                columns |= curves(run, seed)
        return columns

    return make


def apart(seeds: int) -> Callable[[Experiment, Conduct], Columns]:
    """What runs an experiment with so many seeds, each with a split of its own; it keeps curves, and each user's
    measures in the last round. A model trained on the union is then given to every user, to be judged and fitted.
    """

    def make(e: Experiment, conduct: Conduct) -> Columns:
        columns: dict[str, list[float]] = {}
        for seed in range(seeds):
            mine = e.replace(seed=seed, data_seed=seed)
            data = federated(mine)
            task, algorithm = mine.build_task(data), mine.build_algorithm()
            runs = conduct.train(data, task, [algorithm], [seed], mine.settings(), [f"seed {seed}"])
            [run] = finished(conduct.whole(runs))
            users = run.users
            if mine.algorithm == "central":
                own = federated(mine.replace(algorithm="fedavg"))
                users = fine_tune(own, task, run.variables, algorithm.local, seed=seed)
            columns |= curves(run, seed) | last(users, seed)
        return columns

    return make


def finished(runs: Sequence[Run]) -> Sequence[Run]:
    """The same, unless numbers ceased to be numbers."""
    for run in runs:
        if run.diverged:
            raise DivergedError(run.stopped)
    return runs


def curves(run: Run, seed: int) -> dict[str, list[float]]:
    """The curves of a run, each named by its seed; where users were measured, from the first round on."""
    h = History(run.history.rows[1:]) if len(run.users) else run.history
    kept = [name for name in h.columns if name.endswith(("_accuracy", "_accuracy_worst"))]
    return {"round": h.column("round").tolist()} | {f"{seed} {name}": h.column(name).tolist() for name in kept}


def last(users: Users, seed: int) -> dict[str, list[float]]:
    """Each user's accuracies in the last round, and how they mixed, each named by its seed."""
    kept = {name: users.last(name) for name in users.measures if name.endswith("accuracy")}
    if "mixing" in users.columns and seed == 0:
        kept["mixing"] = users.last("mixing").ravel()
    return {f"{seed} last {name}": values.tolist() for name, values in kept.items()}


def measured_accuracies(kept: Kept) -> np.ndarray:
    """Return the test accuracy of every seed, one row a seed: of clients' own models on their own data, and of the
    shared model where clients have none.

    Series that were recorded before the two had different names hold both as ``test_accuracy``.

    >>> measured_accuracies(Kept("a", {"round": [1], "0 own_test_accuracy": [0.5]}, {})).tolist()
    [[0.5]]
    """
    own = each(kept, "own_test_accuracy")
    return own if len(own) else each(kept, "test_accuracy")


def each(kept: Kept, name: str) -> np.ndarray:
    """A column of every seed, one row a seed."""
    found = [values for column, values in kept.columns.items() if column.split(" ", 1)[1:] == [name]]
    return np.array(found, float)
