"""Board: how all workers fare, as a table at rank 0."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

from fedloom.runs.history import History
from fedloom.runs.ranks import Watch
from fedloom.runs.report import headline

ROWS = 20  # workers that are shown, at most
SPENT = {"training": "train s", "waiting": "wait s", "sent": "sent MB"}
MEASURED = {
    **{f"{prefix}_{part}_{metric}": f"{shown}, own data" for prefix in ("own", "user") for part in ("train", "test")
       for metric, shown in (("loss", "loss"), ("accuracy", "acc."))},
    **{f"{prefix}test_{metric}": f"{shown}, all data" for prefix in ("own_on_all_", "")
       for metric, shown in (("loss", "loss"), ("accuracy", "acc."))},
}  # fmt: skip
"""Column of the table of workers → its heading."""
SECONDS = 5.0  # between two lines, where a table cannot be renewed


@contextmanager
def board(console: Console, rounds: int, shown: bool) -> Iterator[Watch | None]:
    """Inside, what shows the workers after every evaluation: a table that is renewed on a terminal, else a line now and
    then.
    """
    if not shown:
        yield None
        return
    if not console.is_terminal:
        said = -SECONDS

        def line(history: History, workers: list[dict[str, Any]]) -> None:  # noqa: ARG001
            nonlocal said
            if time.monotonic() - said >= SECONDS:
                said = time.monotonic()
                console.print(_title(history, rounds), highlight=False, soft_wrap=True)

        yield line
        return
    with Live(console=console, transient=True) as live:
        yield lambda history, workers: live.update(table(workers, _title(history, rounds)))


def _title(history: History, rounds: int) -> str:
    return f"round {int(history.last('round')):,} of {rounds:,}   {headline([history])}"


def table(workers: Sequence[dict[str, Any]], title: str = "") -> Table:
    """Return a table with a row for each of the first workers: how its model does on its own examples (its test
    examples, if it has some) and on everybody's test examples, and what it has spent. The footer holds the mean of
    what was measured and the sum of what was spent.
    """
    called = {**MEASURED, **SPENT}
    for prefix in ("own", "user"):
        if any(f"{prefix}_test_loss" in row for row in workers):
            called = {name: shown for name, shown in called.items() if not name.startswith(f"{prefix}_train")}
    measures = {name: shown for name, shown in called.items() if any(name in row for row in workers)}
    made = Table(title=title, title_justify="left", show_footer=True, box=SIMPLE_HEAD, padding=(0, 0, 0, 1))
    made.add_column("worker", "all", justify="right")
    made.add_column("rank", justify="right")
    made.add_column("user", f"{len(workers):,}", justify="right")
    for name, shown in measures.items():
        values = [row[name] for row in workers if name in row]
        made.add_column(shown, _shown(name, sum(values) / (1 if name in SPENT else len(values))), justify="right")
    for row in workers[:ROWS]:
        who = str(row["worker"]), str(row["rank"]), str(row["user"]) if row["user"] >= 0 else "–"
        made.add_row(*who, *(_shown(name, row[name]) if name in row else "–" for name in measures))
    if len(workers) > ROWS:
        made.add_row("…", *[""] * (len(made.columns) - 1))
    return made


def _shown(name: str, value: float) -> str:
    if name.endswith("accuracy"):
        return f"{value:.2%}"
    return f"{value / 1e6:,.1f}" if name == "sent" else f"{value:.4f}" if name.endswith("loss") else f"{value:.1f}"
