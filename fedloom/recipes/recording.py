"""Recording: run what a paper's parts need and is not recorded yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fedloom.recipes.cell as record
import fedloom.recipes.series as curves
from fedloom.data import FederatedData
from fedloom.engines import compiled
from fedloom.engines.devices import cores, devices
from fedloom.errors import FedloomError, UnknownName
from fedloom.recipes.cell import Cell
from fedloom.recipes.conduct import Begin, Conduct
from fedloom.recipes.part import Found, Part
from fedloom.recipes.partial import Partial, claim, clear, place, unfinished
from fedloom.recipes.racing import Course
from fedloom.recipes.recorded import recorded_fields
from fedloom.recipes.tuning import tune
from fedloom.runs.checkpoint import write_text
from fedloom.runs.experiment import Experiment
from fedloom.runs.prepare import federated
from fedloom.runs.stopping import Stop
from fedloom.trees import listed

QUICK = {"fraction": (0.0, 0.1, 0.2), "model": ("2nn",), "batch_size": (10,), "inputs": ("unit",)}
"""What the cells have that a CPU does in minutes."""
SPENT = "seconds.txt"


@dataclass(frozen=True)
class Manner:
    """How a paper's experiments are run.

    Arguments:
        paper: its name.
        folder: where results are recorded.
        quick: whether only what takes minutes on a CPU is run, with fewer seeds.
        seconds: after so many, what is under way stops where it can go on, and nothing new is begun.
        precision: what training computes in, where an experiment does not say.
        live: a rule for stopping → a progress line.
        say: what tells of something that is done.
    """

    paper: str
    folder: Path
    quick: bool
    seconds: float
    precision: str
    live: Callable[[Stop], AbstractContextManager[Begin]]
    say: Callable[[str], None]

    def precisely(self, e: Experiment) -> Experiment:
        """The experiment as it is run."""
        return e.replace(precision=self.precision) if e.precision == "float32" else e


def recorded(parts: Sequence[Part], folder: Path) -> Found:
    """What is recorded of some parts."""
    cells = {cell.name: cell for part in parts for cell in part.cells}
    outcomes = {name: outcome for name in cells if (outcome := record.read(name, folder))}
    for name, outcome in outcomes.items():
        record.check(cells[name], outcome, folder / f"{name}.json")
    underway = {name: outcome for name in cells if name not in outcomes and (outcome := unfinished(name, folder))}
    for name, outcome in underway.items():
        record.check(cells[name], outcome, folder / f"{name}.partial")
    series = {
        s.name: kept for part in parts for s in part.series(Found(outcomes)) if (kept := curves.read(s.name, folder))
    }
    for part in parts:
        for wanted in part.series(Found(outcomes)):
            if kept := series.get(wanted.name):
                curves.check(wanted, kept, folder)
    return Found(outcomes, series, underway)


def missing(parts: Sequence[Part], found: Found, quick: bool) -> list[str]:
    """What is not recorded yet of some parts, by name; of what a CPU does in minutes, if it is to be quick."""
    cells = [c.name for part in parts for c in part.cells if is_quick(c) or not quick]
    series = [s.name for part in parts for s in part.series(found) if s.quick or not quick]
    return [name for name in dict.fromkeys([*cells, *series]) if name not in {*found.outcomes, *found.series}]


def is_quick(cell: Cell) -> bool:
    """Whether a cell is one of the few that a CPU does in minutes."""
    return all(getattr(cell.experiment, name) in values for name, values in QUICK.items())


def record_missing(parts: Sequence[Part], only: str, manner: Manner) -> bool:
    """Run what is not recorded yet: first the cells, then what else figures and tables need. Whether the time was over
    before that.
    """
    folder, quick, until = manner.folder, manner.quick, time.perf_counter() + manner.seconds
    asked = asks(parts, only, recorded(parts, folder))
    cells = {c.name: c for part in parts for c in part.cells if not quick or is_quick(c)}
    data: dict[Any, FederatedData] = {}
    for cell in cells.values():
        if cell.name in asked and record.read(cell.name, folder) is None:
            try:
                tune_one(cell, data, manner, until)
            except TimeoutError:
                return say_over(manner)
    found = recorded(parts, folder)
    asked = asks(parts, only, found)  # of cells that are new there may be curves to draw
    for series in {s.name: s for part in parts for s in part.series(found)}.values():
        if series.name not in found.series and series.name in asked and (not quick or series.quick):
            try:
                run_one(series, manner, until)
            except TimeoutError:
                return say_over(manner)
    return False


def run_one(series: curves.Series, manner: Manner, until: float) -> None:
    """Run a series and record it; a TimeoutError if the time is over before that."""
    series = replace(series, experiment=manner.precisely(series.experiment))
    folder = place(manner.folder, series.name, series.experiment.precision, device())
    claim(folder, {"experiment": recorded_fields(series.experiment), "device": device()})
    before, start = spent(folder), time.perf_counter()
    try:
        with manner.live(series.experiment.stop()) as begin:
            columns = series.run(Conduct(begin, folder, until), manner.quick)
    except (TimeoutError, KeyboardInterrupt):
        write_text(folder / SPENT, f"{before + time.perf_counter() - start:.2f}\n")
        raise
    except FedloomError:
        if not any(path.is_dir() for path in folder.iterdir()):
            clear(folder)  # nothing had begun
        raise
    about = provenance(series.name, series.experiment, before + time.perf_counter() - start, manner)
    curves.write(curves.Kept(series.name, columns, about), manner.folder)
    clear(folder)
    manner.say(f"{series.name}: {about['seconds']:.0f} s")


def spent(folder: Path) -> float:
    """The seconds that a series has taken which was stopped; none if that cannot be read."""
    try:
        return float((folder / SPENT).read_text())
    except (OSError, ValueError):
        return 0.0


def asks(parts: Sequence[Part], only: str, found: Found) -> set[str]:
    """The names of the cells and series that are asked for."""
    names = [c.name for part in parts for c in part.cells] + [s.name for part in parts for s in part.series(found)]
    return set(choice(only, names))


def choice(only: str, names: Sequence[str]) -> list[str]:
    """The names that are asked for: those that are one of the texts, or else contain it; all if there is no text.

    >>> choice("a", ["a", "ab", "b"]), choice("b,", ["a", "ab", "b", "bc"]), choice("c", ["bc"])
    (['a'], ['b'], ['bc'])
    """
    chosen: list[str] = []
    texts = listed(only)
    for text in texts:
        found = [name for name in names if name == text] or [name for name in names if text in name]
        if not found:
            raise UnknownName("only", text, sorted(set(names)))
        chosen += found
    return chosen if texts else list(names)


def say_over(manner: Manner) -> bool:
    """Say that the time is over: yes."""
    manner.say(f"{manner.seconds:g} seconds are over: go on with the same command")
    return True


def tune_one(cell: Cell, data: dict[Any, FederatedData], manner: Manner, until: float) -> None:
    """Tune a cell and record it; a TimeoutError if the time is over before that."""
    cell = replace(cell, experiment=manner.precisely(cell.experiment))
    e, folder = cell.experiment, manner.folder
    kind = (e.algorithm, *(getattr(e, f.name) for f in fields(e) if f.metadata["group"] in ("Data", "Clients")))
    data[kind] = data.get(kind) or federated(e)
    kept = Partial(
        place(folder, cell.name, e.precision, device()), {"experiment": recorded_fields(e), "device": device()}
    )
    seeds = 1 if manner.quick else 3
    with manner.live(e.stop()) as begin:
        course = Course(cell, data[kind], compiled(), Conduct(begin, kept.folder, until))
        outcome = tune(course, seeds=seeds, partial=kept)
    about = provenance(cell.name, e, kept.seconds, manner)
    outcome = record.Outcome(cell.name, outcome.trials, about)
    record.write(outcome, folder)
    kept.remove()
    manner.say(record.summary(cell, outcome))


def provenance(name: str, e: Experiment, seconds: float, manner: Manner) -> Mapping[str, Any]:
    """How something was made."""
    return {
        "command": f"fedloom reproduce {manner.paper} --only {name}"
        + " --quick" * manner.quick
        + f" --precision {manner.precision}" * (manner.precision != "float32"),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device(),
        "versions": {"jax": jax.__version__, "numpy": np.__version__},
        "seconds": round(seconds, 2),
        "experiment": recorded_fields(e),
    }


def device() -> str:
    """What it is computed on."""
    first = devices()[0]  # which asks for every core, where that can still be asked
    return f"a CPU, {cores()} cores" if first.platform == "cpu" else str(first.device_kind)
