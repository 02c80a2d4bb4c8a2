"""Comparison: several runs in one table; only numbers of the same models on the same data are ranked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.table import Table

from fedloom.data.partition.partition import counted
from fedloom.measures import OWN, OWN_ON_ALL, SHARED, Measure
from fedloom.runs.report import measures, precedence, show
from fedloom.runs.result import Run
from fedloom.runs.seed_group import group_seeds

HEADS = {SHARED: "shared model", OWN: "own models,\nown data", OWN_ON_ALL: "own models,\neverybody's data"}
"""Whose model on whose examples → the second part of a column's heading; a sweep's sections are in this order."""


def comparison(runs: Sequence[Run], target: float | None) -> Table:
    """Return a table of several runs: what was measured on test data in the last round, and what it cost.

    The shared model, clients' own models on their own data and clients' own models on everybody's data have a column
    each. Runs are in order of the first of these that they have, and only runs that have the same are ranked against
    each other, the best first: on validation data, where all of them measured it. Runs that differ in their seeds alone
    are one line, with the mean and the deviation, and the mean rounds to the target of those that reached it.
    """
    together = {group.label: [runs[i] for i in group.indices] for group in group_seeds(runs)}
    metric = compared_metric(runs)
    kinds = [models for models in HEADS if any(has(run, models, "test", metric) for run in runs)]
    ranked = all(run.history.direction(f"test_{metric}") for run in runs)
    validated = [models for models in kinds if ranked and all(has(run, models, "validation", metric) for run in runs
                                                  if has(run, models, "test", metric))]  # fmt: skip
    timed = "clock" if all("clock" in run.history.columns for run in runs) else "seconds"
    odd = [run for run in runs if not run.stopped.startswith("did ") and " reached " not in run.stopped]
    notes = [f"{metric}: of the last round" + (", and the best on validation data" if validated else "")]
    notes += ["±: the deviation over seeds"] if len(together) < len(runs) else []
    notes += ["lines are ranked within their section only"] if len(kinds) > 1 else []
    notes += ["seconds include compiling, which the first run of a program does"] if timed == "seconds" else []
    many, told = counted(len(runs), "experiment", "experiments"), "; ".join(notes)
    table = Table(title=many, title_justify="left", caption=told, caption_justify="left")
    table.add_column("experiment")
    heads = [heading("test", models, kinds) for models in kinds]
    heads += [heading("best\nvalidation", models, kinds) for models in validated]
    heads += [*([f"to {target:.4g}"] if target else []), "rounds", "MB", timed]
    for name in heads:
        table.add_column(name, justify="right", no_wrap=True)
    if odd:
        table.add_column("stopped")
    lines = {label: section(mine, kinds, metric) for label, mine in together.items()}
    order = sorted(together, key=lambda label: merit(together[label], lines[label], validated, metric))
    for before, label in zip([None, *order], order, strict=False):
        if before is not None and lines[before] != lines[label]:
            table.add_section()
        mine = together[label]
        mean = {name: np.mean([run.history.last(name) for run in mine]) for name in ("round", timed)}
        sent = np.mean([run.history.last("bytes_up") + run.history.last("bytes_down") for run in mine]) / 1e6
        cells = [label, *(over_seeds(mine, Measure(models, "test", metric).column) for models in kinds)]
        cells += [over_seeds(mine, Measure(models, "validation", metric).column, best=True) for models in validated]
        cells += [to_target(mine, target)] if target else []
        cells += [f"{mean['round']:.4g}", f"{sent:,.1f}", f"{mean[timed]:,.1f}"]
        ends = dict.fromkeys(run.stopped.split(":")[0].split(";")[0] for run in mine if run in odd)
        table.add_row(*cells, *([", ".join(ends)] if odd else []))
    return table


def compared_metric(runs: Sequence[Run]) -> str:
    """Return the metric by which runs are compared: accuracy, or else the loss, or else the first there is."""
    found = {one.metric for run in runs for one in measures(run.history) if one.part == "test"}
    return min(found, key=lambda metric: (precedence(metric), metric), default="accuracy")


def has(run: Run, models: str, part: str, metric: str) -> bool:
    """Return True if a run measured these models on a part of the data."""
    return Measure(models, part, metric).column in run.history.columns


def heading(name: str, models: str, kinds: Sequence[str]) -> str:
    """Return the heading of a column; it names the shared model only beside clients' own models."""
    return name if models == SHARED and len(kinds) == 1 else f"{name},\n{HEADS[models]}"


def section(runs: Sequence[Run], kinds: Sequence[str], metric: str) -> str | None:
    """Return the first kind of models that some runs measured on test data."""
    return next((models for models in kinds if has(runs[0], models, "test", metric)), None)


def merit(runs: Sequence[Run], models: str | None, validated: Sequence[str], metric: str) -> tuple[int, float]:
    """Return a key by which runs are in order: their section, then how good they are there."""
    if models is None:
        return len(HEADS), 0.0
    part = "validation" if models in validated else "test"
    column = Measure(models, part, metric).column
    sign = {"higher": -1, "lower": 1, None: 0}[runs[0].history.direction(column)]
    found = [run.history.best(column) if part == "validation" else run.history.last(column) for run in runs]
    return list(HEADS).index(models), sign * float(np.mean(found))


def over_seeds(runs: Sequence[Run], column: str, best: bool = False) -> str:
    """Return the mean and the deviation of a column's last value over runs, or of the best over all rounds."""
    if not all(column in run.history.columns for run in runs):
        return "–"
    found = [run.history.best(column) if best else run.history.last(column) for run in runs]
    spread = f" ± {show(column, float(np.std(found, ddof=1)))}" if len(found) > 1 else ""
    return f"{show(column, float(np.mean(found)))}{spread}"


def to_target(runs: Sequence[Run], target: float) -> str:
    """Return the mean rounds to a target, and of how many runs, if not all reached it."""
    reached = [n for run in runs if (name := watched(run)) and (n := run.history.reached(name, target)) is not None]
    if not reached:
        return "–"
    return f"{np.mean(reached):.4g}" + (f" ({len(reached)} of {len(runs)})" if len(reached) < len(runs) else "")


def watched(run: Run) -> str | None:
    """Return the column of a run that a target is about: the one that was monitored, else a test accuracy."""
    if run.monitor:
        return run.monitor
    names = [one.column for one in measures(run.history) if (one.part, one.metric) == ("test", "accuracy")]
    return names[0] if names else None
