"""Tuning: the learning rate of a cell, looked for as McMahan et al. (2017, section 3) did.

A multiplicative grid with ratio 10^(1/3), widened while the best rate is at its edge; every rate runs until it reaches
the target, diverges, or cannot win any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from fedloom.data import FederatedData
from fedloom.engines import Compiled
from fedloom.recipes.cell import Cell, Outcome, Trial
from fedloom.runs.history import History
from fedloom.runs.runner import Run, Settings, Watch, train
from fedloom.runs.stopping import Stop
from fedloom.runs.sweep import with_number

RATIO = 10 ** (1 / 3)
WIDEST = 4  # times that a grid is widened
SAFER = 3  # rates that are repeated: the best, and smaller ones where it fails with some seed

Begin = Callable[[Sequence[str]], Watch]


def grid(rate: float, many: int) -> list[float]:
    """So many rates about one, in steps of 10^(1/3), each with three digits.

    >>> grid(0.1, 5)
    [0.0215, 0.0464, 0.1, 0.215, 0.464]
    """
    return [neighbour(rate, step) for step in range(-(many // 2), many - many // 2)]


def neighbour(rate: float, step: int) -> float:
    """The rate so many steps up (or down) the grid.

    >>> neighbour(0.1, 1), neighbour(0.215, -2)
    (0.215, 0.0464)
    """
    exponent = round(3 * np.log10(rate)) + step
    return float(f"{10 ** (exponent / 3):.3g}")


def tune(
    cell: Cell, data: FederatedData, engine: Compiled, *, rates: int = 5, seeds: int = 3, begin: Begin | None = None
) -> Outcome:
    """The trials of a cell: a race of rates with the first seed, then the best rate with the others; if it fails with
    one of them, the next smaller rate with all.

    Arguments:
        cell: what to reach.
        data: the data of its experiment.
        engine: where it runs: side by side on an accelerator, one after another on a CPU.
        rates: how many learning rates the grid has before it is widened.
        seeds: how many seeds the best one is repeated with.
        begin: makes a progress line for some runs.
    """
    trials: list[Trial] = []
    new = grid(cell.rate, rates)
    for _ in range(WIDEST + 1):
        trials += race(cell, data, engine, [(lr, 0) for lr in new], best(trials), begin)
        found = Outcome(cell.name, cell.target, tuple(trials), {})
        new = wider(found.rates, found.winner)
        if not new:
            break
    rate = found.winner
    for _ in range(SAFER):
        again = [(rate, seed) for seed in range(seeds) if not got_there(trials, rate, seed)]
        trials = [t for t in trials if (t.lr, t.seed) not in again] + race(cell, data, engine, again, None, begin)
        if all(got_there(trials, rate, seed) for seed in range(seeds)):
            break
        rate = neighbour(rate, -1)
    return Outcome(cell.name, cell.target, tuple(trials), {})


def got_there(trials: Sequence[Trial], lr: float, seed: int) -> bool:
    """Whether that run reached the target."""
    return any(t.crossing is not None for t in trials if (t.lr, t.seed) == (lr, seed))


def wider(rates: Sequence[float], winner: float) -> list[float]:
    """The rates to try next: beyond the edge, if the best is there.

    >>> wider([0.1, 0.215, 0.464], 0.464), wider([0.1, 0.215, 0.464], 0.215)
    ([1.0, 2.15], [])
    """
    if winner == max(rates):
        return [neighbour(winner, 1), neighbour(winner, 2)]
    if winner == min(rates):
        return [neighbour(winner, -1), neighbour(winner, -2)]
    return []


def best(trials: Sequence[Trial]) -> float | None:
    """The fewest rounds so far."""
    found = [trial.crossing for trial in trials if trial.crossing is not None]
    return min(found) if found else None


def race(
    cell: Cell,
    data: FederatedData,
    engine: Compiled,
    points: Sequence[tuple[float, int]],
    beat: float | None,
    begin: Begin | None = None,
) -> list[Trial]:
    """Run (rate, seed) pairs to the target, side by side as far as they fit. With a number to beat, or several rates,
    whoever cannot win any more stops.
    """
    e, trials = cell.experiment, list[Trial]()
    task, algorithm = e.build_task(data), e.build_algorithm()
    if not points:
        return trials
    size = engine.group(data, task, algorithm)
    racing = len({lr for lr, _ in points}) > 1 or beat is not None
    for start in range(0, len(points), size):
        group = points[start : start + size]
        fewest = min((x for x in (beat, best(trials)) if x is not None), default=None) if racing else None
        cap = e.rounds if fewest is None else min(e.rounds, -int(-fewest // e.every) * e.every)
        settings = Settings(Stop(max(cap, 1), None, e.target, None), ("test",), e.every)
        labels = [f"{cell.name} lr={lr:g} seed={seed}" for lr, seed in group]
        runs = train(
            engine, data, task, [with_number(algorithm, ("local", "lr"), lr) for lr, _ in group],
            [seed for _, seed in group], settings, [None] * len(group), labels, begin(labels) if begin else None,
            won(cell.target) if racing else None,
        )  # fmt: skip
        trials += [trial(cell, run, lr, seed) for run, (lr, seed) in zip(runs, group, strict=True)]
        if any(run.stopped.startswith("interrupted") for run in runs):
            raise KeyboardInterrupt
    return trials


def won(target: float) -> Callable[[Sequence[History]], Collection[int]]:
    """A race that is over for everybody once somebody has reached the target."""

    def over(histories: Sequence[History]) -> Collection[int]:
        reached = any(h.reached("test_accuracy", target) is not None for h in histories)
        return range(len(histories)) if reached else ()

    return over


def trial(cell: Cell, run: Run, lr: float, seed: int) -> Trial:
    """What a run came to."""
    h = run.history
    curve = tuple((int(row["round"]), float(row["test_accuracy"])) for row in h.rows)
    ended = "diverged" if run.diverged else run.stopped
    return Trial(
        lr, seed, h.crossing("test_accuracy", cell.target), h.reached("test_accuracy", cell.target), ended, curve
    )
