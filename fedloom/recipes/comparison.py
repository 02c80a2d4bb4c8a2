"""Comparison: how many recorded numbers of a table are close to the published ones, lower, or higher."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedloom.recipes.cell import Outcome
from fedloom.recipes.layout import Entry, Grid, crossings

CLOSE = 0.25
"""The largest share by which a number may differ from the published one and still count as close to it."""
KINDS = ("close", "fewer", "more", "not reached")


@dataclass(frozen=True)
class Compared:
    """A recorded entry beside its published number.

    Args:
        entry: the entry of the table.
        ratio: our rounds, the mean over the seeds that reach the target, divided by the published rounds; None if no
            seed does.
        seeds: how many seeds reach the target.
        of: how many seeds ran at the best rate.
    """

    entry: Entry
    ratio: float | None
    seeds: int
    of: int

    @property
    def kind(self) -> str:
        """One of :data:`KINDS`."""
        if self.ratio is None:
            return "not reached"
        return "close" if abs(self.ratio - 1) <= CLOSE else "fewer" if self.ratio < 1 else "more"


def compared(grids: Iterable[Grid], found: Mapping[str, Outcome]) -> list[Compared]:
    """Compare every entry that is both recorded and published by the paper."""
    entries = [entry for grid in grids for entry in grid.entries]
    return [compare(e, found[e.cell], paper) for e in entries
            if e.cell in found and (paper := e.published.get("paper"))]  # fmt: skip


def compare(entry: Entry, outcome: Outcome, paper: float) -> Compared:
    """Compare one entry with its published number."""
    rounds = crossings(entry, outcome)
    ratio = float(np.mean(rounds)) / paper if rounds else None
    return Compared(entry, ratio, len(rounds), len(outcome.chosen(entry.target)))


def summary(grids: Sequence[Grid], found: Mapping[str, Outcome]) -> str:
    """Return the sentences that lead a table: the number of close, lower and higher entries."""
    every = compared(grids, found)
    if not every:
        return "No published number of this table is recorded yet."
    kinds = Counter(one.kind for one in every)
    text = (
        f"Of {len(every)} published numbers that are recorded, {kinds['close']} are within {CLOSE:.0%} of the paper's, "
        f"{kinds['fewer']} take fewer rounds, {kinds['more']} take more"
    )
    text += f", and {kinds['not reached']} are not reached." if kinds["not reached"] else "."
    if partly := [f"`{c.entry.cell}` ({c.seeds} of {c.of})" for c in every if 0 < c.seeds < c.of]:
        text += f" Only some seeds reach the target of {', '.join(partly)}."
    if ratios := [one.ratio for one in every if one.ratio is not None]:
        text += f" Ours are {min(ratios):.2f} to {max(ratios):.2f} times the paper's."
    return text


def total(grids: Sequence[Grid], found: Mapping[str, Outcome]) -> str:
    """Return the sentence that counts all tables together; a cell that two tables share counts in both."""
    every = compared(grids, found)
    if not every:
        return ""
    kinds, different = Counter(one.kind for one in every), {(c.entry.cell, c.entry.target) for c in every}
    partly = sum(0 < c.seeds < c.of for c in every)
    published = f"Of {len(every)} published numbers ({len(different)} different cells)"
    some = f"In {partly} of them only some seeds reach the target."
    return f"""{published}, {kinds["close"]} are within {CLOSE:.0%} of the
paper's, {kinds["fewer"]} take fewer rounds, {kinds["more"]} take more, and {kinds["not reached"]} are not reached.
{some}"""
