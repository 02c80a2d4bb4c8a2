"""Above: cells that take more rounds than published, and whether any of their runs took fewer."""

from __future__ import annotations

from collections.abc import Sequence

from fedloom.recipes.cell import Outcome
from fedloom.recipes.layout import Entry, Grid
from fedloom.recipes.part import Found


def above(grids: Sequence[Grid], found: Found) -> str:
    """Which numbers of some tables are above the paper's, and what of that rates and seeds explain."""
    told = []
    for entry in (entry for grid in grids for entry in grid.entries):
        ours, paper = entry.number("ours", found.outcomes), entry.published.get("paper")
        if ours is not None and paper and ours > paper:
            why = how(entry, paper, found.outcomes[entry.cell])
            told.append(f"`{entry.cell}` ({ours:,.0f}, the paper {paper:,.0f}; {why})")
    return f"Above the paper's: {', '.join(told)}." if told else ""


def how(entry: Entry, paper: float, outcome: Outcome) -> str:
    """How near the runs of a cell came to its published number, with whatever rate and seed."""
    runs, tried = outcome.trials, len(outcome.settings)
    many = f"{len(runs)} runs, with {tried} {'rate' if tried == 1 else 'rates'},"
    took = [rounds * entry.unit for run in runs if (rounds := run.crossing(entry.target)) is not None]
    if min(took) <= paper:
        return f"the fastest of its {many} took {min(took):,.0f}, so seeds decide"
    best = max(accuracy for run in runs for round, accuracy in run.curve if round * entry.unit <= paper)
    return f"of its {many} none was there in {paper:,.0f}, the nearest at {best:.2%}, so it is neither seeds nor rates"
