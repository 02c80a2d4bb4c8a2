"""Layout: published tables as they were printed, with everybody's numbers in each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedloom.recipes.cell import Outcome, star

WHO = {"ours": "fedloom", "paper": "paper", "hartoyo": "Hartoyo Putra"}
NOT_RUN = "–"


@dataclass(frozen=True)
class Entry:
    """One number of a table: what it takes to reach a target.

    Arguments:
        cell: the name of the cell that was run for it.
        target: the test accuracy to reach.
        published: who published which number; ``None``: they did not get there, or did not say.
        unit: how much of what the table counts a round is.
        missed: who did not get there, and the accuracy that they came to.
    """

    cell: str
    target: float
    published: Mapping[str, float | None] = field(default_factory=dict)
    unit: float = 1.0
    missed: Mapping[str, float] = field(default_factory=dict)

    def number(self, who: str, found: Mapping[str, Outcome]) -> float | None:
        """Somebody's number."""
        if who != "ours":
            return self.published.get(who)
        rounds = found[self.cell].rounds(self.target) if self.cell in found else None
        return None if rounds is None else rounds * self.unit


@dataclass(frozen=True)
class Grid:
    """A table: its title, its columns, and rows of entries, the first of which is the baseline of speed-ups."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]

    @property
    def entries(self) -> list[Entry]:
        """All entries, row by row."""
        return [entry for _, row in self.rows for entry in row]


def filled(
    grid: Grid, found: Mapping[str, Outcome], unfinished: Mapping[str, Outcome] | None = None
) -> list[list[str]]:
    """The texts of a table: in each cell everybody's rounds, ours with their standard error over seeds and with a star
    where they were trained in bfloat16, and in brackets how many times fewer than in the first row of the column; of
    cells under way, the rounds so far, if somebody is there: those that lose end first, and tell nothing.
    """
    lines, known = [], {**(unfinished or {}), **found}
    for row, entries in grid.rows:
        texts = [row]
        for entry, first in zip(entries, grid.rows[0][1], strict=True):
            told = []
            for who, called in WHO.items():
                mine, base = entry.number(who, found), first.number(who, found)
                if who in entry.missed:
                    told.append(f"{called} not reached ({entry.missed[who]:.2%})")
                    continue
                if mine is None and who != "ours" and not (who == "paper" and who in entry.published):
                    continue
                gain = f" ({base / mine:.1f} ×)" if mine and base and entry is not first else ""
                shown = f"{mine:,.0f}" if mine else NOT_RUN
                if who == "ours" and (ours := known.get(entry.cell)):
                    shown = took(entry, ours) + _spread(entry, ours)
                    if entry.cell not in found:
                        shown = f"{shown} so far" if _is_there(entry, ours) else NOT_RUN
                told.append(f"{called} {shown}{gain}")
            texts.append("\n".join(told))
        lines.append(texts)
    return lines


def took(entry: Entry, ours: Outcome) -> str:
    """The rounds that we took, or with how many seeds we got there, or how near we came."""
    chosen, trials = ours.chosen(entry.target), ours.trials
    there = crossings(entry, ours)
    if len(there) == len(chosen):
        return f"{np.mean(there):,.0f}{star(ours.about)}"
    if all(" reached " in trial.ended for trial in chosen):
        return NOT_RUN  # not that far
    if there:
        return f"{np.mean(there):,.0f}{star(ours.about)} with {len(there)} of {len(chosen)} seeds"
    return f"not in {max(t.curve[-1][0] for t in trials) * entry.unit:,.0f} (best {max(t.best for t in trials):.2%})"


def crossings(entry: Entry, ours: Outcome) -> list[float]:
    """The rounds of the seeds that got there at the best rate, in the table's unit."""
    trials = ours.chosen(entry.target)
    return [rounds * entry.unit for trial in trials if (rounds := trial.crossing(entry.target)) is not None]


def _is_there(entry: Entry, ours: Outcome) -> bool:
    return any(trial.reached(entry.target) is not None for trial in ours.trials)


def _spread(entry: Entry, ours: Outcome) -> str:
    """The standard error of a mean over seeds, if it is one."""
    rounds = crossings(entry, ours)
    if len(rounds) < 2 or len(rounds) < len(ours.chosen(entry.target)):
        return ""
    error = float(np.std(rounds, ddof=1)) / len(rounds) ** 0.5
    return f" ± {error:,.0f}" if error >= 1 else f" ± {error:.1g}"


def markdown(grid: Grid, lines: Sequence[Sequence[str]]) -> str:
    """A table as Markdown."""
    rows = [["", *grid.heads], ["---"] * (1 + len(grid.heads)), *lines]
    return "\n".join("| " + " | ".join(cell.replace("\n", "<br>") for cell in row) + " |" for row in rows)
