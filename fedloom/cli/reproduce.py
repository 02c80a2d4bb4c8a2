"""Reproduce: published tables, run again."""

from __future__ import annotations

import time
from collections.abc import Sequence
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
from fedloom.recipes.tuning import beginning, tune
from fedloom.runs import report
from fedloom.runs.checkpoint import write_text
from fedloom.runs.prepare import federated

PAPERS = {"mcmahan2017": mcmahan2017}
PARTS = ("table1", "table2", "table3")
QUICK = {"fraction": (0.0, 0.1, 0.2), "model": ("2nn",), "batch_size": (10,)}


def reproduce(
    paper: Annotated[str, typer.Argument(help="which paper: mcmahan2017")],
    parts: Annotated[list[str] | None, typer.Argument(help=f"{', '.join(PARTS)}; all by default")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="a few cells, three rates, one seed: minutes on a CPU")
    ] = False,
    from_results: Annotated[bool, typer.Option("--from-results", help="only print what is recorded")] = False,
    only: Annotated[str, typer.Option(help="only cells whose name contains one of these, comma-separated")] = "",
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
        names = PARTS if not parts or "all" in parts else parts
        chosen = [
            recipe(choose("part", part, dict(zip((*PARTS, "all"), (*PARTS, "all"), strict=True)))) for part in names
        ]
        folder = results / (f"{paper}-quick" if quick else paper)
        cells = {cell.name: cell for part in chosen for cell in part.cells}
        if not from_results:
            wanted = [c for c in cells.values() if any(text in c.name for text in only.split(","))]
            run(paper, [c for c in wanted if not quick or is_quick(c)], folder, quick, quiet, seconds)
        found = {name: outcome for name in cells if (outcome := record.read(name, folder))}
        if not found:
            raise FedloomError(f"nothing is recorded in {folder}: run without --from-results")
        texts = [layout.introduction(paper, found), ""]
        for grid in (grid for part in chosen for grid in part.grids):
            lines = layout.filled(grid, found)
            texts += [f"## {grid.title}", "", layout.markdown(grid, lines), ""]
            texts += [layout.standing([grid], found) + ".", ""]
            if not quiet and any(entry.cell in found for entry in grid.entries):
                console.print(shown(grid, lines))
                console.print(texts[-2])
        if page:
            write_text(page, "\n".join(texts).rstrip() + "\n")


def is_quick(cell: Cell) -> bool:
    """Whether a cell is one of the few that a CPU does in minutes."""
    return all(getattr(cell.experiment, name) in values for name, values in QUICK.items())


def run(paper: str, cells: Sequence[Cell], folder: Path, quick: bool, quiet: bool, seconds: float) -> None:
    """Tune the cells that are not recorded yet, one after another."""
    engine, began = compiled(), time.perf_counter()
    data: dict[tuple[str, str, str], FederatedData] = {}
    for cell in cells:
        if record.read(cell.name, folder) is not None:
            continue
        if time.perf_counter() - began > seconds:
            errors.print(f"{seconds:g} seconds are over: go on with the same command", style="yellow")
            return
        e = cell.experiment
        kind = e.data, e.partition, e.algorithm
        data[kind] = data.get(kind) or federated(e)
        start = time.perf_counter()
        rate, rates = beginning(cell, {c: o for c in cells if (o := record.read(c.name, folder))})
        with report.live(errors, e.stop(), not quiet) as begin:
            outcome = tune(
                cell, data[kind], engine, rate=rate, rates=3 if quick else rates, seeds=1 if quick else 3, begin=begin
            )
        about = {
            "command": f"fedloom reproduce {paper} --only {cell.name}" + " --quick" * quick,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "device": jax.devices()[0].device_kind,
            "versions": {"jax": jax.__version__, "numpy": np.__version__},
            "seconds": round(time.perf_counter() - start, 2),
            "experiment": e.changed(),
        }
        record.write(record.Outcome(cell.name, outcome.trials, about), folder)
        if not quiet:
            errors.print(told_of(cell, outcome, about["seconds"]), highlight=False)


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
