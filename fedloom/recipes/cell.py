"""Cell: one experiment of a published table, and what was recorded of ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedloom.errors import CheckpointError, FedloomError
from fedloom.recipes.recorded import recorded_experiment, recorded_fields
from fedloom.runs.checkpoint import write_text
from fedloom.runs.experiment import Experiment
from fedloom.runs.history import History

T = TypeVar("T")
ACCURACY = "test_accuracy"
FREE = ("rounds", "every", "target", "evaluate", "precision")
"""What may differ between a cell and what is kept of it: it is still the same experiment."""
Point = tuple[float, float, int]
"""Learning rate, decay and seed of a run."""


@dataclass(frozen=True)
class Cell:
    """One experiment of a published table: how many rounds until test accuracies are reached.

    Arguments:
        name: of its file.
        experiment: all but the learning rate, its decay and the seed; its target is the last of the targets.
        rate: the learning rate about which to look for the best.
        decays: the factors by which it may change every round.
        targets: the test accuracies to reach, the hardest last.
        goal: the rounds to the hardest that a finer search is worth.
        step: of the grid, in powers of 10^(1/3).
    """

    name: str
    experiment: Experiment
    rate: float
    decays: tuple[float, ...] = (1.0,)
    targets: tuple[float, ...] = (0.99,)
    goal: float | None = None
    step: float = 1


@dataclass(frozen=True)
class Trial:
    """One run of a cell: what a learning rate, its decay and a seed came to.

    Arguments:
        lr, decay, seed: which run it is.
        ended: why it stopped.
        curve: (round, test accuracy) pairs.
    """

    lr: float
    decay: float
    seed: int
    ended: str
    curve: tuple[tuple[int, float], ...]

    @cached_property
    def history(self) -> History:
        """The curve."""
        return History(tuple({"round": round, ACCURACY: accuracy} for round, accuracy in self.curve))

    @property
    def point(self) -> Point:
        """Which run it is."""
        return self.lr, self.decay, self.seed

    @property
    def setting(self) -> tuple[float, float]:
        """The learning rate and its decay."""
        return self.lr, self.decay

    def crossing(self, target: float) -> float | None:
        """Rounds to a target, interpolated; ``None`` if it was not reached."""
        return self.history.crossing(ACCURACY, target)

    def reached(self, target: float) -> int | None:
        """The same as a whole round."""
        return self.history.reached(ACCURACY, target)

    @property
    def best(self) -> float:
        """The best test accuracy."""
        return max(accuracy for _, accuracy in self.curve)


@dataclass(frozen=True)
class Outcome:
    """All trials of a cell, and how they were made (command, device, versions, seconds)."""

    cell: str
    trials: tuple[Trial, ...]
    about: Mapping[str, Any]

    @property
    def settings(self) -> list[tuple[float, float]]:
        """The learning rates and decays that were tried."""
        return sorted({trial.setting for trial in self.trials})

    def winner(self, target: float) -> tuple[float, float]:
        """The learning rate and decay that need the fewest rounds over the seeds tried with them; if none gets there,
        those that come nearest.
        """
        return min(self.settings, key=lambda setting: self._merit(setting, target))

    def chosen(self, target: float) -> list[Trial]:
        """The trials with the winning learning rate and decay, by seed."""
        best = self.winner(target)
        return sorted((t for t in self.trials if t.setting == best), key=lambda trial: trial.seed)

    def rounds(self, target: float) -> float | None:
        """The mean over seeds of the rounds to a target; ``None`` unless all got there."""
        found = [trial.crossing(target) for trial in self.chosen(target)]
        return None if None in found else float(np.mean([c for c in found if c is not None]))

    def _merit(self, setting: tuple[float, float], target: float) -> tuple[int, float, float]:
        """Smaller is better: more seeds at the target first, then fewer rounds, then more accuracy."""
        trials = [trial for trial in self.trials if trial.setting == setting]
        found = [c for trial in trials if (c := trial.crossing(target)) is not None]
        rounds = float(np.mean(found)) if found else float("inf")
        return -len(found), rounds, -float(np.mean([trial.best for trial in trials]))


def star(about: Mapping[str, Any]) -> str:
    """A star for what was trained in bfloat16; nothing for anything else."""
    return "*" if about.get("experiment", {}).get("precision") == "bfloat16" else ""


def summary(cell: Cell, outcome: Outcome) -> str:
    """One line on a cell: its rounds to each target, and what that took."""
    texts = []
    for target in cell.targets:
        rounds, (lr, decay) = outcome.rounds(target), outcome.winner(target)
        by = f"lr {lr:g}" + (f", decay {decay:g}" if decay != 1 else "")
        texts.append(
            f"{target:.0%} in {rounds:.1f} rounds ({by})" if rounds is not None else f"{target:.0%} not reached"
        )
    return f"{cell.name}: {'; '.join(texts)}; {len(outcome.trials)} runs, {outcome.about['seconds']:.0f} s"


def write(outcome: Outcome, folder: Path) -> None:
    """Keep an outcome as JSON, with its curves."""
    content = {"cell": outcome.cell, **outcome.about, "trials": [as_json(trial) for trial in outcome.trials]}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    write_text(folder / f"{outcome.cell}.json", text.replace('{"lr"', '\n{"lr"') + "\n")


def read(name: str, folder: Path) -> Outcome | None:
    """What is kept of a cell, or ``None``."""

    def made(content: dict[str, Any]) -> Outcome:
        trials = tuple(from_json(one) for one in content.pop("trials"))
        if not trials:
            raise ValueError("it has no trials")
        return Outcome(name, trials, made_so(content, "cell", name))

    return recorded(folder / f"{name}.json", made)


def made_so(content: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    """How what is recorded under a name was made: what is left of its content; a ValueError if that cannot be."""
    if (said := content.pop(kind)) != name:
        raise ValueError(f"it says that it is {said!r}")
    if not isinstance(content.get("experiment", {}), dict):
        raise ValueError(f"its experiment is {content['experiment']!r}")
    return {**content, **({"seconds": float(content["seconds"])} if "seconds" in content else {})}


def recorded(path: Path, made: Callable[[dict[str, Any]], T]) -> T | None:
    """What is made of a JSON file's content, or ``None`` if there is no such file."""
    if not path.is_file():
        return None
    try:
        return made(json.loads(path.read_text()))
    except (json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged ({error}): delete it, and it is computed again") from error


def check(cell: Cell, outcome: Outcome, path: Path) -> None:
    """Raise a :class:`CheckpointError` if what is kept in a place is of another experiment than the cell's."""
    try:
        was = recorded_experiment(outcome.about.get("experiment", {}))
    except FedloomError as error:
        raise CheckpointError(f"{path} is damaged ({error}): delete it, and it is computed again") from error
    e = cell.experiment.replace(**{name: getattr(was, name) for name in FREE})
    if was != e:
        raise CheckpointError(
            f"{path} is of another experiment ({recorded_fields(was)}): delete it, and it is computed again"
        )


def as_json(trial: Trial) -> dict[str, Any]:
    """A trial as JSON; accuracies have five digits."""
    curve = [[round, float(f"{accuracy:.5f}")] for round, accuracy in trial.curve]
    return {"lr": trial.lr, "decay": trial.decay, "seed": trial.seed, "ended": trial.ended, "curve": curve}


def from_json(one: Mapping[str, Any]) -> Trial:
    """A trial from JSON; a ValueError or its like if it is none."""
    curve = tuple((int(round), float(accuracy)) for round, accuracy in one["curve"])
    if not curve:
        raise ValueError("a trial has no curve")
    if wrong := [accuracy for _, accuracy in curve if not 0 <= accuracy <= 1]:
        raise ValueError(f"a trial has the accuracy {wrong[0]}")
    return Trial(float(one["lr"]), float(one["decay"]), int(one["seed"]), str(one["ended"]), curve)
