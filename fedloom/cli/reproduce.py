"""Reproduce: published tables, run again."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer
from rich.table import Table

import fedloom.recipes.cell as record
import fedloom.recipes.layout as layout
import fedloom.recipes.series as curves
from fedloom.cli.shared import Debug, Quiet, console, errors, told
from fedloom.data import FederatedData
from fedloom.engines import compiled
from fedloom.engines.devices import cores
from fedloom.errors import FedloomError, UnknownName, choose
from fedloom.recipes import PARTS, Cell, mcmahan2017
from fedloom.recipes.page import page as write_page
from fedloom.recipes.part import Found, Part
from fedloom.recipes.partial import Partial
from fedloom.recipes.tuning import beginning, tune
from fedloom.runs import report
from fedloom.runs.experiment import Experiment
from fedloom.runs.prepare import federated

PAPERS = {"mcmahan2017": mcmahan2017}
QUICK = {"fraction": (0.0, 0.1, 0.2), "model": ("2nn",), "batch_size": (10,), "inputs": ("unit",)}


def reproduce(
    paper: Annotated[str, typer.Argument(help="which paper: mcmahan2017")],
    parts: Annotated[list[str] | None, typer.Argument(help=f"{', '.join(PARTS)}, or all (the default)")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="a few cells of the 2NN with one seed, and quick figures: minutes on a CPU")
    ] = False,
    from_results: Annotated[
        bool, typer.Option("--from-results", help="run nothing: only show and draw what is recorded")
    ] = False,
    only: Annotated[str, typer.Option(help="only what has one of these in its name, comma-separated")] = "",
    results: Annotated[Path, typer.Option(help="folder of the recorded results")] = Path("results"),
    page: Annotated[
        Path | None, typer.Option(help="where the page goes, with its figures; beside the results by default")
    ] = None,
    seconds: Annotated[float, typer.Option(help="begin nothing new after so many seconds")] = float("inf"),
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run a paper's experiments that are not recorded yet; print its tables with ours beside the published numbers,
    draw its figures, and write a page of both.

    Every cell is tuned over learning rates and repeated over seeds; what is finished is recorded and not run again.

    Example: fedloom reproduce mcmahan2017 table1 --quick
    """
    with told(debug):
        recipe = choose("paper", paper, PAPERS)
        meant = {"all": tuple(PARTS), **{name: (name,) for name in PARTS}}
        names = [name for part in parts or ["all"] for name in choose("part", part, meant)]
        chosen = [recipe(name) for name in dict.fromkeys(names)]
        folder = results / (f"{paper}-quick" if quick else paper)
        if not from_results:
            run(paper, chosen, folder, only, quick, quiet, seconds)
        found = recorded(chosen, folder)
        if not found.outcomes and not found.series:
            raise FedloomError(f"nothing of {', '.join(p.name for p in chosen)} is recorded in {folder}"
                               + (": run without --from-results" if from_results else ""))  # fmt: skip
        if not quiet:
            for grid in (grid for part in chosen for grid in part.grids):
                if any(entry.cell in found.outcomes for entry in grid.entries):
                    console.print(shown(grid, layout.filled(grid, found.outcomes)))
                    console.print(layout.standing([grid], found.outcomes) + ".")
        file = page or folder / "page.md"
        figures = write_page(paper, chosen, found, file, quick)
        if not quiet:
            console.print(f"{file}" + (f" and {len(figures)} figures in {figures[0].parent}" if figures else ""))


def recorded(parts: Sequence[Part], folder: Path) -> Found:
    """What is recorded of some parts."""
    cells = {cell.name: cell for part in parts for cell in part.cells}
    outcomes = {name: outcome for name in cells if (outcome := record.read(name, folder))}
    for name, outcome in outcomes.items():
        record.check(cells[name], outcome, folder)
    series = {
        s.name: kept for part in parts for s in part.series(Found(outcomes)) if (kept := curves.read(s.name, folder))
    }
    return Found(outcomes, series)


def is_quick(cell: Cell) -> bool:
    """Whether a cell is one of the few that a CPU does in minutes."""
    return all(getattr(cell.experiment, name) in values for name, values in QUICK.items())


def run(paper: str, parts: Sequence[Part], folder: Path, only: str, quick: bool, quiet: bool, seconds: float) -> None:
    """Run what is not recorded yet: first the cells, then what else figures need."""
    began = time.perf_counter()
    names = [c.name for part in parts for c in part.cells]
    names += [s.name for part in parts for s in part.series(recorded(parts, folder))]
    wanted = set(choice(only, names))
    cells = {c.name: c for part in parts for c in part.cells if c.name in wanted and (not quick or is_quick(c))}
    data: dict[Any, FederatedData] = {}
    for cell in cells.values():
        if record.read(cell.name, folder) is None:
            if is_over(began, seconds):
                return
            tune_one(paper, cell, list(cells.values()), folder, data, quick, quiet)
    found = recorded(parts, folder)
    for series in {s.name: s for part in parts for s in part.series(found)}.values():
        if series.name not in found.series and series.name in wanted and (not quick or series.quick):
            if is_over(began, seconds):
                return
            start = time.perf_counter()
            with report.live(errors, series.experiment.stop(), not quiet) as begin:
                columns = series.run(begin)
            about = provenance(paper, series.name, series.experiment, start, quick)
            curves.write(curves.Kept(series.name, columns, about), folder)


def choice(only: str, names: Sequence[str]) -> list[str]:
    """The names that are asked for: those that are one of the texts, or else contain it; all if there is no text.

    >>> choice("a", ["a", "ab", "b"]), choice("b,", ["a", "ab", "b", "bc"]), choice("c", ["bc"])
    (['a'], ['b'], ['bc'])
    """
    chosen: list[str] = []
    texts = [text.strip() for text in only.split(",") if text.strip()]
    for text in texts:
        found = [name for name in names if name == text] or [name for name in names if text in name]
        if not found:
            raise UnknownName("only", text, sorted(set(names)))
        chosen += found
    return chosen if texts else list(names)


def is_over(began: float, seconds: float) -> bool:
    """Whether the time is over; says so."""
    over = time.perf_counter() - began > seconds
    if over:
        errors.print(f"{seconds:g} seconds are over: go on with the same command", style="yellow")
    return over


def tune_one(
    paper: str,
    cell: Cell,
    cells: Sequence[Cell],
    folder: Path,
    data: dict[Any, FederatedData],
    quick: bool,
    quiet: bool,
) -> None:
    """Tune a cell and record it."""
    e, start = cell.experiment, time.perf_counter()
    kind = (e.algorithm, *(getattr(e, f.name) for f in fields(e) if f.metadata["group"] in ("Data", "Clients")))
    data[kind] = data.get(kind) or federated(e)
    rate = beginning(cell, {c: o for c in cells if (o := record.read(c.name, folder))})
    unfinished = folder / f"{cell.name}.partial"
    with report.live(errors, e.stop(), not quiet) as begin:
        outcome = tune(
            cell, data[kind], compiled(), rate=rate, seeds=1 if quick else 3, begin=begin, partial=Partial(unfinished)
        )
    about = provenance(paper, cell.name, e, start, quick)
    record.write(record.Outcome(cell.name, outcome.trials, about), folder)
    unfinished.unlink(missing_ok=True)
    if not quiet:
        errors.print(told_of(cell, outcome, about["seconds"]), highlight=False)


def provenance(paper: str, name: str, e: Experiment, start: float, quick: bool) -> Mapping[str, Any]:
    """How something was made."""
    return {
        "command": f"fedloom reproduce {paper} --only {name}" + " --quick" * quick,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": f"a CPU, {cores()} cores" if jax.default_backend() == "cpu" else jax.devices()[0].device_kind,
        "versions": {"jax": jax.__version__, "numpy": np.__version__},
        "seconds": round(time.perf_counter() - start, 2),
        "experiment": e.changed(),
    }


def told_of(cell: Cell, outcome: record.Outcome, seconds: float) -> str:
    """One line on a cell that was run."""
    told = []
    for target in cell.targets:
        rounds, (lr, decay) = outcome.rounds(target), outcome.winner(target)
        by = f"lr {lr:g}" + (f", decay {decay:g}" if decay != 1 else "")
        told.append(
            f"{target:.0%} in {rounds:.1f} rounds ({by})" if rounds is not None else f"{target:.0%} not reached"
        )
    return f"{cell.name}: {'; '.join(told)}; {len(outcome.trials)} runs, {seconds:.0f} s"


def shown(grid: layout.Grid, lines: list[list[str]]) -> Table:
    """A table for the terminal."""
    table = Table(title=grid.title, title_justify="left", show_lines=True)
    for head in ("", *grid.heads):
        table.add_column(head)
    for line in lines:
        table.add_row(*line)
    return table
