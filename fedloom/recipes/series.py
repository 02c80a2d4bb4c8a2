"""Series: a run of which everything that was measured is kept, for figures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.errors import CheckpointError, FedloomError
from fedloom.recipes.cell import made_so, recorded
from fedloom.recipes.conduct import Conduct
from fedloom.recipes.recorded import recorded_experiment
from fedloom.runs.checkpoint import write_text
from fedloom.runs.experiment import Experiment
from fedloom.runs.history import History, from_rows
from fedloom.runs.prepare import federated
from fedloom.runs.settings import Settings

Columns = Mapping[str, Sequence[float]]
DIGITS = 6


@dataclass(frozen=True)
class Series:
    """What a figure shows of one experiment.

    Arguments:
        name: of its file.
        experiment: what is run.
        make: what runs it, and gives columns of numbers.
        quick: whether a CPU does it in minutes.
        few: what runs it where it should be quick, if not the same.
    """

    name: str
    experiment: Experiment
    make: Callable[[Experiment, Conduct], Columns] | None = None
    quick: bool = False
    few: Callable[[Experiment, Conduct], Columns] | None = None

    def run(self, conduct: Conduct | None = None, quick: bool = False) -> Columns:
        """The columns: of a history, if nothing else is said."""
        return ((self.few if quick else None) or self.make or measured)(self.experiment, conduct or Conduct())


@dataclass(frozen=True)
class Kept:
    """A series that was recorded, and how it was made."""

    name: str
    columns: Columns
    about: Mapping[str, Any]

    @property
    def runs(self) -> int:
        """Return the number of runs: one for each seed that begins a column's name, or for each value of an option."""
        seeds = {word for word in (name.split(" ")[0] for name in self.columns) if word.isdigit()}
        return len(seeds) or max(len(self.columns.get(name, ())) for name in ("lr", "lambda1")) or 1

    @property
    def history(self) -> History:
        """The columns as a history."""
        rows = zip(*self.columns.values(), strict=True)
        return from_rows(dict(zip(self.columns, row, strict=True)) for row in rows)


def measured(e: Experiment, conduct: Conduct) -> Columns:
    """The history of an experiment: rounds, accuracies and losses. One that diverges ends there."""
    data = federated(e)
    task, algorithm = e.build_task(data), e.build_algorithm()
    settings = Settings(e.stop(), e.splits, e.every)
    runs = conduct.train(data, task, [algorithm], [e.seed], settings, [f"{data.name}, {task.name}"])
    h = conduct.whole(runs)[0].history
    return {name: h.column(name).tolist() for name in h.columns if name.endswith(("round", "accuracy", "loss"))}


def write(kept: Kept, folder: Path) -> None:
    """Keep a series as JSON."""
    columns = {name: [shortened(value) for value in values] for name, values in kept.columns.items()}
    text = json.dumps({"series": kept.name, **kept.about, "columns": columns}, ensure_ascii=False, allow_nan=False)
    write_text(folder / f"{kept.name}.json", text.replace('"columns"', '\n"columns"').replace("], ", "],\n") + "\n")


class Recorded(dict[str, Sequence[float]]):
    """The columns in a file: whoever asks for one that is missing is told which file to delete."""

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(columns)
        self.path = path

    def __missing__(self, name: str) -> Sequence[float]:
        raise CheckpointError(f"{self.path} is damaged (no column {name!r}): delete it, and it is computed again")


def read(name: str, folder: Path) -> Kept | None:
    """What is kept of a series, or ``None``."""
    path = folder / f"{name}.json"

    def made(content: dict[str, Any]) -> Kept:
        columns = {
            column: [math.nan if v is None else float(v) for v in values]
            for column, values in content.pop("columns").items()
        }
        if not all(len(values) for values in columns.values()) or not columns:
            raise ValueError("it has no columns, or an empty one")
        return Kept(name, Recorded(path, columns), made_so(content, "series", name))

    return recorded(path, made)


def check(series: Series, kept: Kept, folder: Path) -> None:
    """Raise a :class:`CheckpointError` if what is kept is of another experiment than the series', or no history where
    that is what it keeps.
    """
    path, was = folder / f"{series.name}.json", kept.about.get("experiment", {})
    precision = was.get("precision", series.experiment.precision)  # in whichever it was computed
    try:
        experiment = recorded_experiment(was)
    except FedloomError as error:
        raise CheckpointError(f"{path} is damaged ({error}): delete it, and it is computed again") from error
    if experiment != series.experiment.replace(precision=precision):
        raise CheckpointError(f"{path} is of another experiment ({was}): delete it, and it is computed again")
    if series.make is None and len({len(values) for values in kept.columns.values()}) > 1:
        raise CheckpointError(f"{path} is damaged (some columns are longer): delete it, and it is computed again")


def shortened(value: float) -> float | None:
    """A number with a few digits; ``None`` for what is no number, which JSON does not know."""
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
