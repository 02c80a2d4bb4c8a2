"""Above: cells that take more rounds than published, and whether any of their runs took fewer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedloom.data.partition.partition import counted
from fedloom.recipes.cell import Outcome
from fedloom.recipes.layout import NOT_RUN, Entry, Grid, took
from fedloom.recipes.part import Found


def above(grids: Sequence[Grid], found: Found) -> str:
    """Which numbers of some tables are above the paper's, and what of that rates and seeds explain."""
    told = []
    for entry in (entry for grid in grids for entry in grid.entries):
        outcome, paper = found.outcomes.get(entry.cell), entry.published.get("paper")
        if outcome is None or not paper or (entry.number("ours", found.outcomes) or np.inf) <= paper:
            continue
        if (ours := took(entry, outcome)) != NOT_RUN:
            told.append(f"`{entry.cell}` ({ours}, the paper {paper:,.0f}; {how(entry, paper, outcome)})")
    return f"Above the paper's: {', '.join(told)}." if told else ""


def how(entry: Entry, paper: float, outcome: Outcome) -> str:
    """How near the runs of a cell came to its published number, with whatever rate and seed."""
    runs, tried = outcome.trials, len(outcome.settings)
    many = f"{counted(len(runs), 'run', 'runs')}, with {counted(tried, 'rate', 'rates')},"
    fastest = min((rounds for run in runs if (rounds := run.crossing(entry.target)) is not None), default=np.inf)
    if fastest * entry.unit <= paper:
        return f"the fastest of its {many} took {fastest * entry.unit:,.0f}, so seeds decide"
    best = max(accuracy for run in runs for round, accuracy in run.curve if round * entry.unit <= paper)
    return (
        f"of its {many} none was there in {paper:,.0f}, the nearest at {best:.2%}, so seeds and rates do not explain it"
    )
