"""Results: plot, list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.table import Table

from fedloom.cli.experiments import EXPERIMENT
from fedloom.cli.shared import Debug, Json, Quiet, console, default, told
from fedloom.cli.sweep import SWEEP
from fedloom.errors import ArgumentError, require, warn
from fedloom.runs.catalogue import LISTING
from fedloom.runs.history import AGAINST
from fedloom.runs.plot import plot
from fedloom.runs.portraits import bands
from fedloom.runs.result import Run, holds_run, load
from fedloom.trees import listed

AXES = "rounds,bytes,seconds"


def plot_command(
    directories: Annotated[list[Path], typer.Argument(help="folders of runs or sweeps; several share one figure")],
    metric: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help=f"metrics, one row each {default('accuracy, or the first metric, and loss')}"),
    ] = None,
    against: Annotated[str, typer.Option(help="any of rounds, bytes, seconds, steps, clock; one column each")] = AXES,
    users: Annotated[bool, typer.Option("--users", help="how users fared instead, of runs with --users yes")] = False,
    file: Annotated[Path, typer.Option(help="where to save it: png, pdf or svg")] = Path("figure.png"),
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw accuracy and loss of one or several runs against rounds, bytes and seconds; or how their users fared."""
    with told(debug):
        directories = [folder for directory in directories for folder in members(directory)]
        runs = [load(folder) for folder in directories]
        for run in (run for run in runs if not run.finished):
            warn(f"{run.directory} is drawn as far as it got: {run.stopped}")
        for x in against.split(","):
            if x not in AGAINST:
                raise ArgumentError("against", "any of " + ", ".join(AGAINST), x)
        if users:
            require(against == AXES, "against", "left alone with --users, which draws rounds", against)
            one = "accuracy" if metric is None else metric
            require("," not in one, "metric", "one, with --users", metric)
            bands([(label, run.users) for label, run in zip(own_labels(runs), runs, strict=True)], one, file)
        else:
            plot(runs, metrics=listed(metric), against=against.split(","), file=file)
        if not quiet:
            console.print(f"Figure: {file}")


def own_labels(runs: Sequence[Run]) -> list[str]:
    """Return a label for each run, which no other one has, seeds included."""
    labels = [run.label for run in runs]
    return [str(run.directory) if labels.count(run.label) > 1 else run.label for run in runs]


def members(directory: Path) -> list[Path]:
    """Return a run's folder, or the folders of a sweep's runs; warn about those that have not begun."""
    if not (directory / SWEEP).is_file():
        return [directory]
    planned = sorted(file.parent for file in directory.glob(f"*/{EXPERIMENT}"))
    begun = [folder for folder in planned if holds_run(folder)]
    if len(begun) < len(planned):
        warn(
            f"{directory} is a sweep of {len(planned)} runs, of which {len(begun)} have begun: the others are not drawn"
        )
    return begun


def list_command(json_: Json = False) -> None:
    """List what can be named: data sets, partitions, splits, models, algorithms, weightings, combiners, servers, …"""
    if json_:
        print(json.dumps(LISTING, ensure_ascii=False, indent=1))
        return
    for kind, names in LISTING.items():
        table = Table(title=f"--{kind}", title_justify="left", show_header=False, box=None, padding=(0, 2))
        for name, meaning in names.items():
            table.add_row(f"[bold]{name}[/bold]", meaning)
        console.print(table)
