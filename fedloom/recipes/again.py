"""Again: do numbers just below the published ones hold with seeds that chose nothing?

A learning rate is chosen by the rounds that it takes with some seeds, and those rounds are what is reported: the best
of several means is a little too good. Where that decides which side of a published number ours is on, the chosen rate
is run again with other seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedloom.engines import compiled
from fedloom.recipes.cell import Cell, Outcome, star
from fedloom.recipes.conduct import Conduct
from fedloom.recipes.layout import Grid
from fedloom.recipes.part import Found, Part
from fedloom.recipes.racing import Course
from fedloom.recipes.series import Columns, Kept, Series
from fedloom.runs.experiment import Experiment
from fedloom.runs.prepare import federated

NEAR = 0.85  # of a published number, from which on ours is run again
SEEDS = (3, 4, 5)  # which had no part in the choice


def again(tables: Sequence[Part]) -> Part:
    """The cells of some tables that are just below a published number, with other seeds."""
    cells = {cell.name: cell for table in tables for cell in table.cells}
    grids = [grid for table in tables for grid in table.grids]

    def series(found: Found) -> Iterator[Series]:
        yield from (once_more(cells[name], found.outcomes[name]) for name in near(grids, found))

    def text(found: Found) -> str:
        close = near(grids, found)
        rows = [row(cells[name], paper, found.outcomes[name], found.series.get(f"again-{name}"))
                for name, paper in close.items()]  # fmt: skip
        if not any(f"again-{name}" in found.series for name in close):
            return ""
        heads = ["", "paper", "in the table", "with other seeds", "each of them"]
        lines = [heads, ["---"] * len(heads), *rows]
        about = (
            f"Cells whose number is at most the paper's, but at least {NEAR:g} of it: the same learning rate with "
            f"{len(SEEDS)} seeds that had no part in its choice. {standing(found, close)}"
        )
        return about + "\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines)

    return Part("again", "Do numbers near the paper's hold?", tuple(cells.values()), series=series, text=text)


def near(grids: Sequence[Grid], found: Found) -> dict[str, float]:
    """Cell → the smallest published number that ours is just below."""
    told: dict[str, float] = {}
    for entry in (entry for grid in grids for entry in grid.entries):
        ours, paper = entry.number("ours", found.outcomes), entry.published.get("paper")
        if ours and paper and NEAR * paper <= ours <= paper:
            told[entry.cell] = min(paper, told.get(entry.cell, paper))
    return told


def doubts(grids: Sequence[Grid], found: Found) -> str:
    """Which numbers of some tables that are just below the paper's are not so with other seeds, or may not be; nothing
    if what was run again was not looked for.
    """
    close = near(grids, found) if any(name.startswith("again-") for name in found.series) else {}
    kept = {name: found.series.get(f"again-{name}") for name in close}
    not_so = [f"`{name}`" for name, one in kept.items() if one and mean(one) > close[name]]
    not_all = [f"`{name}`" for name, one in kept.items() if one and np.isnan(mean(one))]
    waiting = [f"`{name}`" for name, one in kept.items() if one is None]
    told = [f"{', '.join(not_so)} {'is' if len(not_so) == 1 else 'are'} above the paper's"] if not_so else []
    told += [f"{', '.join(not_all)} did not get there with all of them"] if not_all else []
    told += [f"{', '.join(waiting)} {'was' if len(waiting) == 1 else 'were'} not run again yet"] if waiting else []
    if not told:
        return ""
    return f"Of numbers just below the paper's, with seeds that chose nothing (below): {'; '.join(told)}."


def once_more(cell: Cell, outcome: Outcome) -> Series:
    """A cell at its chosen rate, with other seeds."""
    target = cell.targets[-1]
    lr, decay = outcome.winner(target)
    precision = outcome.about.get("experiment", {}).get("precision", "float32")
    e = cell.experiment.replace(lr=lr, decay=decay, target=target, precision=precision)

    def crossings(e: Experiment, conduct: Conduct) -> Columns:
        """The rounds to the target, a column a seed; NaN where it is not reached."""
        mine, points = replace(cell, experiment=e), [(lr, decay, seed) for seed in SEEDS]
        course, took = Course(mine, federated(e), compiled(), conduct), dict[int, float | None]()
        for ended in course.race(points, raced=False, capped=False, forgets=False):
            took |= {trial.seed: trial.crossing(target) for trial in ended.trials}
        return {f"{seed} rounds": [np.nan if rounds is None else rounds] for seed, rounds in took.items()}

    return Series(f"again-{cell.name}", e, crossings)


def standing(found: Found, close: Mapping[str, float]) -> str:
    """How many of the cells that are near a published number are still at most that with other seeds."""
    kept = {name: found.series[f"again-{name}"] for name in close if f"again-{name}" in found.series}
    good = [name for name, one in kept.items() if mean(one) <= close[name]]
    left = len(close) - len(kept)
    waiting = f"; {left} {'was' if left == 1 else 'were'} not run again yet" if left else ""
    return f"{len(good)} of the {len(kept)} that were run again are at most the paper's again{waiting}."


def mean(kept: Kept) -> float:
    """The mean of the rounds with other seeds; NaN where one did not get there."""
    return float(np.mean([took for [took] in kept.columns.values()]))


def row(cell: Cell, paper: float, outcome: Outcome, kept: Kept | None) -> list[str]:
    """A line of the table."""
    first = [f"`{cell.name}`", f"{paper:,.0f}", f"{outcome.rounds(cell.targets[-1]):,.1f}{star(outcome.about)}"]
    if kept is None:
        return [*first, "not run again", ""]
    rounds = [float(took) for [took] in kept.columns.values()]
    middle = "not all there" if np.isnan(rounds).any() else f"{mean(kept):,.1f}{star(kept.about)}"
    each = ", ".join("not reached" if np.isnan(r) else f"{r:,.1f}" for r in rounds)
    return [*first, middle, each]
