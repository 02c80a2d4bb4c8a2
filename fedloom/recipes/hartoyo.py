"""Hartoyo Putra's reproduction of McMahan et al. (2017), in three tasks.

Accuracy is the share of examples whose largest output is their class; loss is the mean cross-entropy of an example.
Both are of the shared model, on all examples of a part, after a round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fedloom.recipes.cell import Cell, Outcome, star
from fedloom.recipes.figures import accuracies
from fedloom.recipes.layout import Grid
from fedloom.recipes.part import Found, Part, Picture
from fedloom.recipes.recorded import recorded_experiment
from fedloom.recipes.series import Series
from fedloom.runs.experiment import Experiment
from fedloom.runs.plot import plot

KINDS = {"iid": "IID", "shards": "shards"}
FRACTIONS = (0.0, 0.1, 1.0)
WORK = ((1, 10), (20, 10), (1, 50), (20, 50), (1, None), (20, None))
EVALUATIONS = 100  # at most, of a run whose every detail is drawn


def hartoyo(table1: Part, table2: Part, published: dict[str, Any]) -> Part:
    """His three tasks, from Tables 1 and 2.

    Task 1: the 2NN with 10,000 images held out for validation. Task 2: what is published of Table 1 for C = 0, 0.1 and
    1, each with its curves. Task 3: six rows of Table 2, and Figure 2 of them.
    """
    wanted = {e.cell: e for g in table1.grids for e in g.entries if e.published.get("paper")}
    cases = [c for c in table1.cells if c.name in wanted and c.experiment.fraction in FRACTIONS]
    third = [c for c in table2.cells if c.experiment.model == "cnn"
             and (c.experiment.epochs, c.experiment.batch_size) in WORK]  # fmt: skip

    def series(found: Found) -> Iterator[Series]:
        yield from (first(kind) for kind in KINDS)
        yield from (portrait(c, found.outcomes[c.name]) for c in cases if c.name in found.outcomes)

    def pictures(found: Found) -> Iterator[Picture]:
        for kind, called in KINDS.items():
            if kept := found.series.get(first(kind).name):
                about = (
                    f"Task 1, 2NN, {called}, B = 10, C = 0.1, E = 1, learning rate 0.1, 10,000 images for validation"
                )
                yield Picture(kept.name, about, plot([(about, kept.history)], target=0.97))
        for c in cases:
            if kept := found.series.get(f"portrait-{c.name}"):
                rate, how = recorded_experiment(kept.about["experiment"]).lr, ", bfloat16" if star(kept.about) else ""
                about = f"Task 2, {described(c.experiment)}, learning rate {rate:g}{how}"
                yield Picture(kept.name, about, plot([(about, kept.history)], target=c.targets[-1]))
        if figure := accuracies(third, found.outcomes):
            about = "Task 3, Figure 2 for his six (B, E), at the best learning rate of each (his: 0.215 for all)"
            yield Picture("hartoyo-task3", about, figure)

    def text(found: Found) -> str:
        return summary(found, published)

    grids = (*(only(grid, cases) for grid in table1.grids), only(table2.grids[0], third))
    return Part("hartoyo", "Hartoyo Putra's three tasks", (*cases, *third), grids, series, pictures, text)


def first(kind: str) -> Series:
    """Task 1: with a validation set, at his learning rate."""
    e = Experiment(partition=kind, validation=10_000, model="2nn", fraction=0.1, epochs=1, batch_size=10, lr=0.1,
                   rounds=1500, target=0.97, evaluate="train,validation,test")  # fmt: skip
    return Series(f"hartoyo-task1-{kind}", e, quick=kind == "iid")


def portrait(cell: Cell, outcome: Outcome) -> Series:
    """Task 2: a cell of Table 1 once more at its best learning rate, with everything measured."""
    target = cell.targets[-1]
    longest = max((c for t in outcome.chosen(target) if (c := t.crossing(target)) is not None),
                  default=cell.experiment.rounds)  # fmt: skip
    every = max(1, -(-int(longest) // EVALUATIONS))
    e = cell.experiment.replace(
        lr=outcome.winner(target)[0], rounds=-(-int(1.2 * longest) // every) * every, every=every, evaluate="train,test"
    )
    return Series(f"portrait-{cell.name}", e, quick=e.model == "2nn" and e.fraction == 0.1 and e.batch_size == 10)


def described(e: Experiment) -> str:
    """An experiment in the words of his slides."""
    return f"{e.model.upper()}, {KINDS[e.partition]}, B = {e.batch_size or '∞'}, C = {e.fraction:g}, E = {e.epochs}"


def only(grid: Grid, cells: Sequence[Cell]) -> Grid:
    """The rows of a table that have some of these cells."""
    names = {cell.name for cell in cells}
    rows = [(name, entries) for name, entries in grid.rows if any(entry.cell in names for entry in entries)]
    return Grid(f"{grid.title}: the rows that Hartoyo Putra ran", grid.heads, tuple(rows))


def summary(found: Found, published: dict[str, Any]) -> str:
    """Task 1's table: rounds, and the accuracies when the test accuracy reached 97 %."""
    if not any(first(kind).name in found.series for kind in KINDS):
        return ""
    lines = ["Task 1: rounds until the test accuracy reaches 97 %, and the accuracies then.", "",
             "| | | rounds | training | validation | test |", "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for kind, called in KINDS.items():
        theirs = published["hartoyo_task1"][kind]
        cells = [f"{theirs['rounds']:,}", *(f"{theirs[part]:.2%}" for part in ("train", "validation", "test"))]
        kept = found.series.get(first(kind).name)
        ours = ["–"] * 4
        if kept:
            h = kept.history
            reached = h.reached("test_accuracy", 0.97)
            ours = [
                f"not in {h.last('round'):,.0f}" if reached is None else f"{reached:,}",
                *(f"{h.last(f'{p}_accuracy'):.2%}" for p in ("train", "validation", "test")),
            ]
        lines += [f"| {called} | {who} | " + " | ".join(numbers) + " |"
                  for who, numbers in (("fedloom", ours), ("Hartoyo Putra", cells))]  # fmt: skip
    return "\n".join(lines)
