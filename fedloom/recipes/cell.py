"""Cell: one number of a published table, the experiment behind it, and what was recorded of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.errors import CheckpointError
from fedloom.runs.checkpoint import write_text
from fedloom.runs.experiment import Experiment


@dataclass(frozen=True)
class Cell:
    """One number of a published table: rounds until a test accuracy is reached.

    Arguments:
        name: of its file.
        experiment: all but the learning rate and the seed.
        rate: the learning rate about which to look for the best.
        published: who published which number for it; ``None``: they did not get there, or did not say.
    """

    name: str
    experiment: Experiment
    rate: float
    published: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def target(self) -> float:
        """The test accuracy to reach."""
        assert self.experiment.target is not None
        return self.experiment.target


@dataclass(frozen=True)
class Trial:
    """One run of a cell: what a learning rate and a seed came to.

    Arguments:
        lr, seed: which run it is.
        crossing: rounds to the target, interpolated; ``None`` if it was not reached.
        reached: the same as a whole round.
        ended: why it stopped.
        curve: (round, test accuracy) pairs.
    """

    lr: float
    seed: int
    crossing: float | None
    reached: int | None
    ended: str
    curve: tuple[tuple[int, float], ...]

    @property
    def best(self) -> float:
        """The best test accuracy."""
        return max(accuracy for _, accuracy in self.curve)


@dataclass(frozen=True)
class Outcome:
    """All trials of a cell, and how they were made (command, device, versions, seconds)."""

    cell: str
    target: float
    trials: tuple[Trial, ...]
    about: Mapping[str, Any]

    @property
    def rates(self) -> list[float]:
        """The learning rates that were tried."""
        return sorted({trial.lr for trial in self.trials})

    @property
    def winner(self) -> float:
        """The learning rate that needs the fewest rounds over the seeds tried with it; if none gets there, the one that
        comes nearest.
        """
        return min(self.rates, key=self._merit)

    @property
    def chosen(self) -> list[Trial]:
        """The trials with the winning learning rate, by seed."""
        return sorted((t for t in self.trials if t.lr == self.winner), key=lambda trial: trial.seed)

    @property
    def rounds(self) -> float | None:
        """The mean over seeds of the rounds to the target; ``None`` unless all got there."""
        found = [trial.crossing for trial in self.chosen]
        return None if None in found else float(np.mean([c for c in found if c is not None]))

    def _merit(self, lr: float) -> tuple[int, float, float]:
        """Smaller is better: more seeds at the target first, then fewer rounds, then more accuracy."""
        trials = [trial for trial in self.trials if trial.lr == lr]
        found = [trial.crossing for trial in trials if trial.crossing is not None]
        rounds = float(np.mean(found)) if found else float("inf")
        return -len(found), rounds, -float(np.mean([trial.best for trial in trials]))


def write(outcome: Outcome, folder: Path) -> None:
    """Keep an outcome as JSON, with its curves."""
    trials = [{"lr": t.lr, "seed": t.seed, "crossing": t.crossing, "reached": t.reached, "ended": t.ended,
               "curve": [[r, round(a, 5)] for r, a in t.curve]} for t in outcome.trials]  # fmt: skip
    content = {"cell": outcome.cell, "target": outcome.target, **outcome.about, "trials": trials}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    write_text(folder / f"{outcome.cell}.json", text.replace('{"lr"', '\n{"lr"') + "\n")


def read(cell: Cell, folder: Path) -> Outcome | None:
    """What is kept of a cell, or ``None``."""
    path = folder / f"{cell.name}.json"
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text())
        trials = tuple(_trial(one) for one in content.pop("trials"))
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged ({error}): delete it, and it is computed again") from error
    return Outcome(content.pop("cell"), content.pop("target"), trials, content)


def _trial(one: Mapping[str, Any]) -> Trial:
    curve = tuple((int(round), float(accuracy)) for round, accuracy in one["curve"])
    return Trial(one["lr"], one["seed"], one["crossing"], one["reached"], one["ended"], curve)
