"""Reproduce: published tables, run again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown
from rich.table import Table

import fedloom.recipes.layout as layout
from fedloom.cli.shared import DataFolder, Debug, Quiet, console, errors, told
from fedloom.errors import FedloomError, choose, require
from fedloom.recipes import PAPERS, Part
from fedloom.recipes.comparison import summary
from fedloom.recipes.page import page as write_page
from fedloom.recipes.paper import Paper
from fedloom.recipes.part import Found
from fedloom.recipes.recording import Manner, missing, record_missing, recorded
from fedloom.runs import Experiment, report
from fedloom.settings import looking_in

NAMES = "; ".join(f"{name}: {', '.join(paper.parts)}" for name, paper in PAPERS.items())


def reproduce(
    paper: Annotated[str, typer.Argument(help=f"which paper: {', '.join(PAPERS)}")],
    parts: Annotated[list[str] | None, typer.Argument(help=f"all (the default), or of {NAMES}")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="a few experiments, with fewer seeds: minutes on a CPU")
    ] = False,
    from_results: Annotated[
        bool, typer.Option("--from-results", help="run nothing: only show and draw what is recorded")
    ] = False,
    only: Annotated[str, typer.Option(help="only what has one of these in its name, comma-separated")] = "",
    results: Annotated[Path, typer.Option(help="folder of the recorded results")] = Path("results"),
    page: Annotated[
        Path | None, typer.Option(help="where the page goes, with its figures; beside the results by default")
    ] = None,
    seconds: Annotated[float, typer.Option(help="stop after so many seconds, to go on with the same command")] = float(
        "inf"
    ),
    precision: Annotated[
        str, typer.Option(help="what training computes in: float32, or bfloat16, which is quick on an accelerator")
    ] = "float32",
    data_folder: DataFolder = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run a paper's experiments that are not recorded yet; print its tables with ours beside the published numbers,
    draw its figures, and write a page of both.

    Everything is repeated over seeds, and every cell of McMahan's tables tuned over learning rates; what is finished
    is recorded and not run again, and what was stopped goes on.

    Examples:
      fedloom reproduce mcmahan2017 table1 --quick

      fedloom reproduce samani2020 wisdm
    """
    with told(debug), looking_in(data_folder):
        about = choose("paper", paper, PAPERS)
        Experiment(precision=precision)  # which knows the choices
        chosen = about.chosen(parts or ["all"])
        require(seconds > 0, "seconds", "above 0", seconds)
        require(not (from_results and only), "only", "left out with --from-results, which runs nothing", only)
        require(page is None or not page.is_dir(), "page", "a file", str(page))
        folder = results / (f"{paper}-quick" if quick else paper)
        over = False
        if not from_results:
            made(folder)
            live = lambda stop: report.live(errors, stop, not quiet)  # noqa: E731
            say = lambda text: None if quiet else errors.print(text, highlight=False)  # noqa: E731
            over = record_missing(chosen, only, Manner(paper, folder, quick, seconds, precision, live, say))
        found = recorded(chosen, folder)
        if found.is_empty and not over:
            asked = f"nothing of {only}" if only else "none of it"
            why = "run without --from-results" if from_results else f"{asked} is quick: run without --quick"
            raise FedloomError(f"nothing of {', '.join(p.name for p in chosen)} is recorded in {folder}: {why}")
        if not found.is_empty:
            tell(about, chosen, found, page or folder / "page.md", quick, quiet)


def tell(paper: Paper, parts: Sequence[Part], found: Found, file: Path, quick: bool, quiet: bool) -> None:
    """Print what is recorded and what is not, unless it is to be quiet, and write the page."""
    figures = write_page(paper, parts, found, file)
    if quiet:
        return
    show(parts, found)
    if left := missing(parts, found, quick):
        console.print(f"Not recorded yet: {', '.join(left)}", soft_wrap=True, highlight=False)
    console.print(f"{file}" + (f" and {len(figures)} figures in {figures[0].parent}" if figures else ""))


def made(folder: Path) -> None:
    """Make the folder of results, and see that it can be written to: before hours of work, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise FedloomError(f"the folder of results, {folder}, cannot be written to ({error.strerror})") from error


def show(parts: Sequence[Part], found: Found) -> None:
    """Print the tables of some parts, and what is said of them."""
    for part in parts:
        for grid in part.grids:
            if any(entry.cell in {*found.outcomes, *found.unfinished} for entry in grid.entries):
                console.print(shown(grid, layout.filled(grid, found.outcomes, found.unfinished)))
                console.print(summary([grid], found.outcomes))
        if said := part.text(found):
            console.print(Markdown(f"**{part.title}**\n\n{said}"))


def shown(grid: layout.Grid, lines: list[list[str]]) -> Table:
    """A table for the terminal."""
    table = Table(title=grid.title, title_justify="left", show_lines=True)
    for head in ("", *grid.heads):
        table.add_column(head)
    for line in lines:
        table.add_row(*line)
    return table
