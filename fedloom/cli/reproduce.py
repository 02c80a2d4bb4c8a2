"""Reproduce: published tables, run again."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import typer
from rich.table import Table

import fedloom.recipes.cell as record
import fedloom.recipes.layout as layout
from fedloom.cli.shared import Debug, Quiet, console, errors, told
from fedloom.data import FederatedData
from fedloom.engines import compiled
from fedloom.errors import FedloomError, choose
from fedloom.recipes import Cell, mcmahan2017
from fedloom.recipes.tuning import tune
from fedloom.runs import report
from fedloom.runs.checkpoint import write_text
from fedloom.runs.prepare import federated

PAPERS = {"mcmahan2017": mcmahan2017}
QUICK = {"fraction": (0.0, 0.1, 0.2), "model": ("2nn",), "batch_size": (10,)}


def reproduce(
    paper: Annotated[str, typer.Argument(help="which paper: mcmahan2017")],
    parts: Annotated[list[str] | None, typer.Argument(help="table1, table2; all by default")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="a few cells, three rates, one seed: minutes on a CPU")
    ] = False,
    from_results: Annotated[bool, typer.Option("--from-results", help="only print what is recorded")] = False,
    only: Annotated[str, typer.Option(help="only cells whose name contains this")] = "",
    results: Annotated[Path, typer.Option(help="folder of the recorded results")] = Path("results"),
    page: Annotated[Path | None, typer.Option(help="also write the tables as Markdown")] = None,
    seconds: Annotated[float, typer.Option(help="begin no new cell after so many seconds")] = float("inf"),
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run a paper's experiments that are not recorded yet, and print its tables with ours beside the published numbers.

    Every cell is tuned over learning rates and repeated over seeds; finished cells are recorded and not run again.

    Example: fedloom reproduce mcmahan2017 table1 --quick
    """
    with told(debug):
        recipe = choose("paper", paper, PAPERS)
        chosen = [choose("part", part, {p: p for p in layout.GRIDS}) for part in parts or layout.GRIDS]
        folder = results / (f"{paper}-quick" if quick else paper)
        cells = [cell for part in chosen for cell in recipe(part)]
        wanted = [cell for cell in cells if only in cell.name and (not quick or is_quick(cell))]
        if not from_results:
            run(paper, wanted, folder, quick, quiet, seconds)
        found = {cell.name: outcome for cell in cells if (outcome := record.read(cell, folder))}
        if not found:
            raise FedloomError(f"nothing is recorded in {folder}: run without --from-results")
        known, texts = {cell.name: cell for cell in cells}, [layout.introduction(paper, found), ""]
        for part in chosen:
            for grid in layout.GRIDS[part]():
                lines = layout.filled(grid, known, found)
                texts += [f"## {grid.title}", "", layout.markdown(grid, lines), ""]
                if not quiet and any(name in found for _, names in grid.rows for name in names):
                    console.print(shown(grid, lines))
        texts.append(layout.standing(cells, found) + ".")
        if not quiet:
            console.print(texts[-1])
        if page:
            write_text(page, "\n".join(texts) + "\n")


def is_quick(cell: Cell) -> bool:
    """Whether a cell is one of the few that a CPU does in minutes."""
    return all(getattr(cell.experiment, name) in values for name, values in QUICK.items())


def run(paper: str, cells: list[Cell], folder: Path, quick: bool, quiet: bool, seconds: float) -> None:
    """Tune the cells that are not recorded yet, one after another."""
    engine, began = compiled(), time.perf_counter()
    data: dict[str, FederatedData] = {}
    for cell in cells:
        if record.read(cell, folder) is not None:
            continue
        if time.perf_counter() - began > seconds:
            errors.print(f"{seconds:g} seconds are over: go on with the same command", style="yellow")
            return
        kind = f"{cell.experiment.data}/{cell.experiment.partition}"
        data[kind] = data.get(kind) or federated(cell.experiment)
        start = time.perf_counter()
        with report.live(errors, cell.experiment.stop(), not quiet) as begin:
            outcome = tune(cell, data[kind], engine, rates=3 if quick else 5, seeds=1 if quick else 3, begin=begin)
        about = {
            "command": f"fedloom reproduce {paper} {cell.name.split('-')[0]} --only {cell.name}" + " --quick" * quick,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "device": jax.devices()[0].device_kind,
            "versions": {"jax": jax.__version__, "numpy": np.__version__},
            "seconds": round(time.perf_counter() - start, 2),
            "experiment": cell.experiment.changed(),
        }
        record.write(record.Outcome(cell.name, cell.target, outcome.trials, about), folder)
        if not quiet:
            ours = f"{outcome.rounds:.1f}" if outcome.rounds is not None else "not reached"
            theirs = cell.published.get("paper")
            took = f"at lr {outcome.winner:g}, {about['seconds']:.0f} s"
            errors.print(f"{cell.name}: {ours} rounds (paper {theirs or '–'}) {took}", highlight=False)


def shown(grid: layout.Grid, lines: list[list[str]]) -> Table:
    """A table for the terminal."""
    table = Table(title=grid.title, title_justify="left", show_lines=True)
    for head in ("", *grid.heads):
        table.add_column(head)
    for line in lines:
        table.add_row(*line)
    return table
