"""Tuning: the learning rate of a cell, looked for as McMahan et al. (2017, section 3) did.

A multiplicative grid with ratio 10^(1/3) or less, widened while the best rate is at its edge, and made finer about the
best where a goal is missed; every rate runs until it reaches the target, diverges, or cannot win any more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedloom.recipes.cell import Outcome, Point, Trial
from fedloom.recipes.partial import Partial
from fedloom.recipes.racing import Course

WIDEST = 9  # times that a grid is widened
SAFER = 3  # rates that are repeated: the best, and smaller ones where it fails with some seed
NEARLY = 1.25  # times the fewest rounds with the first seeds, up to which a rate may be the best with all
CLOSE = 1.25  # times the goal, up to which the first seeds let hope that some rate gets there
FINER = ((0.5, np.inf), (0.25, 1.1))  # steps of finer grids, and up to how many times the goal each is worth it


def grid(rate: float, many: int, step: float = 1) -> list[float]:
    """So many rates about one, in steps of 10^(1/3) or a part of that, each with three digits.

    >>> grid(0.1, 5), grid(0.316, 3, step=0.5)
    ([0.0215, 0.0464, 0.1, 0.215, 0.464], [0.215, 0.316, 0.464])
    """
    return [neighbour(rate, step * place) for place in range(-(many // 2), many - many // 2)]


def neighbour(rate: float, step: float) -> float:
    """The rate so many steps of 10^(1/3) (or halves, quarters, eighths of one) up or down.

    >>> neighbour(0.1, 1), neighbour(0.215, -2), neighbour(0.1, 0.5), neighbour(0.147, 0.25)
    (0.215, 0.0464, 0.147, 0.178)
    """
    return float(f"{10 ** ((place(rate) + step) / 3):.3g}")


def place(rate: float) -> float:
    """Where a rate is: how many steps of 10^(1/3), to an eighth of one, it is from 1.

    >>> place(0.1), place(0.215), place(0.147)
    (-3.0, -2.0, -2.5)
    """
    return round(24 * np.log10(rate)) / 8


def tune(course: Course, *, rates: int = 3, seeds: int = 3, partial: Partial | None = None) -> Outcome:
    """The trials of a cell: a race of rates with each of its decays, and for each target the best with every seed.

    Where the best rate failed with some seed, and the one that did not is at the grid's edge, the grid is widened once
    more. Where it all takes more rounds than the cell's goal, a grid twice as fine about the best rate, before anything
    is repeated if the first seeds tell; if it takes few more then, again; and at last, unless it is far from the goal,
    every seed with every rate that is near the best, for one seed may not tell which is best.

    Arguments:
        course: what to reach, with which data, and where it runs.
        rates: how many learning rates the grid has before it is widened.
        seeds: how many seeds the best one is repeated with.
        partial: trials that are done already, and where new ones are kept.
    """
    tuning, cell = Tuning(course, seeds, partial or Partial()), course.cell
    new = grid(cell.rate, rates, cell.step)
    for _ in range(WIDEST + 1):
        tuning.compare([(lr, decay) for lr in new for decay in cell.decays])
        best, _ = tuning.leader(cell.targets[-1])
        new = wider([lr for lr, _ in tuning.found.settings], best, cell.step)
        if not new:
            break
    if tuning.over() > 1:
        tuning.refine(FINER[0][0])
    tuning.repeat()
    tuning.widen()
    for step, most in FINER:
        if 1 < tuning.over() <= most:
            tuning.refine(step)
            tuning.repeat()
    if tuning.over() > 1 and tuning.is_close():
        tuning.repeat_all(tuning.contenders())
    return tuning.found


class Tuning:
    """The trials of a cell as they come in."""

    def __init__(self, course: Course, seeds: int, partial: Partial) -> None:
        self.course, self.cell, self.seeds = course, course.cell, seeds
        self.partial, self.trials = partial, list[Trial]()
        e, data = self.cell.experiment, course.data
        several = course.engine.group(data, e.build_task(data), e.build_algorithm()) > 1
        # Rates are compared with one seed; with all where a cohort is one client of many, which leaves an accelerator
        # idle and rates' merits to chance.
        self.first = seeds if several and course.one_of_many else 1

    @property
    def found(self) -> Outcome:
        """What there is so far."""
        return Outcome(self.cell.name, tuple(self.trials), {})

    def leader(self, target: float) -> tuple[float, float]:
        """The learning rate and decay that are best with the seeds that all have run with."""
        fair = tuple(trial for trial in self.trials if trial.seed < self.first)
        return Outcome(self.cell.name, fair, {}).winner(target)

    def compare(self, settings: Sequence[tuple[float, float]]) -> None:
        """Run some rates and decays with the first seeds, raced against each other and those before; the likeliest
        first, for where not all fit side by side, the others then stop as soon as they cannot win.
        """
        likely = sorted(settings, key=lambda setting: abs(place(setting[0]) - place(self.cell.rate)))
        points = [(*setting, seed) for setting in likely for seed in range(self.first)]
        self.run(points, True, self.cell.targets[-1], capped=True)

    def refine(self, step: float) -> None:
        """Run the rates next to the best, in such a step of the grid's."""
        best, decay = self.leader(self.cell.targets[-1])
        self.compare([(neighbour(best, side * step * self.cell.step), decay) for side in (-1, 1)])

    def run(
        self,
        points: Sequence[Point],
        raced: bool,
        target: float,
        capped: bool = False,
        rivals: Sequence[Trial] | None = None,
    ) -> None:
        """Run points to a target unless they are known: raced or each until it gets there or fails, and capped when the
        best before was there. Those before are all trials if no rivals are given.
        """
        found = {point: trial for point in points if (trial := self.partial.find(point, raced))}
        known = {point: trial for point, trial in found.items() if is_done(trial, target)}
        new = [point for point in points if point not in known]
        self.trials = [t for t in self.trials if t.point not in points] + list(known.values())
        beside = points if self.course.each_alone(raced) else ()
        before = [t for t in (self.trials if rivals is None else rivals) if t.point not in beside]
        for ended in self.course.race(new, before, raced, self.first, target, capped):
            self.partial.add(ended.trials, raced, ended.seconds)
            self.trials += ended.trials

    def repeat(self) -> None:
        """Run the best with all seeds, for each target; where it fails with one of them, a smaller rate too. The
        hardest goes first, for what gets there has passed the others.
        """
        for target in reversed(self.cell.targets):
            best, decay = self.leader(target)
            lr = best if any(self.got_there((best, decay, seed), target) for seed in range(self.first)) else None
            for _ in range(SAFER if self.cell.decays == (1.0,) else 1):  # a rate that decays becomes small anyway
                if lr is None:
                    break
                every = [(lr, decay, seed) for seed in range(self.seeds)]
                again = [point for point in every if not self.got_there(point, target)]
                self.run(again, False, target)
                lr = None if all(self.got_there(point, target) for point in every) else self.safer(lr, decay, target)

    def safer(self, lr: float, decay: float, target: float) -> float | None:
        """The rate to repeat where one fails with some seed: of the smaller ones that got there with the first seeds
        the largest; or else the next, if there is time for as many times the rounds as it is smaller.
        """
        smaller = [rate for rate, d in self.found.settings if d == decay and rate < lr]
        if known := [rate for rate in smaller if self.first_took((rate, decay), target) is not None]:
            return max(known)
        new = neighbour(lr, -self.cell.step)
        took = [c for t in self.trials if t.setting == (lr, decay) and (c := t.crossing(target)) is not None]
        return new if took and np.mean(took) * lr / new <= self.cell.experiment.rounds else None

    def widen(self) -> None:
        """While the best with all seeds is at an edge of the grid, run the next rate beyond it: raced against that one
        alone, for others were faster with the first seeds and failed with some.
        """
        target = self.cell.targets[-1]
        for _ in range(WIDEST):
            best = self.found.chosen(target)
            (lr, decay), rates = best[0].setting, [lr for lr, _ in self.found.settings]
            new = [(rate, decay) for rate in wider(rates, lr, self.cell.step)]
            if not new or self.found.rounds(target) is None:
                return
            points = [(*setting, seed) for setting in new for seed in range(self.first)]
            self.run(points, True, target, capped=True, rivals=best)
            self.repeat_all(new)

    def repeat_all(self, settings: Sequence[tuple[float, float]]) -> None:
        """Run those rates and decays with all seeds that got to the last target with the first."""
        target = self.cell.targets[-1]
        for lr, decay in settings:
            if all(self.got_there((lr, decay, seed), target) for seed in range(self.first)):
                every = [(lr, decay, seed) for seed in range(self.seeds)]
                self.run([point for point in every if not self.got_there(point, target)], False, target)

    def contenders(self) -> list[tuple[float, float]]:
        """The rates and decays whose first seeds took few more rounds to the last target than the best's."""
        target = self.cell.targets[-1]
        took = {s: rounds for s in self.found.settings if (rounds := self.first_took(s, target)) is not None}
        return [setting for setting, rounds in took.items() if rounds <= NEARLY * min(took.values())]

    def first_took(self, setting: tuple[float, float], target: float) -> float | None:
        """The rounds to a target with the first seeds; ``None`` unless all got there."""
        first = [t.crossing(target) for t in self.trials if t.setting == setting and t.seed < self.first]
        there = [rounds for rounds in first if rounds is not None]
        return float(np.mean(there)) if there and len(there) == len(first) else None

    def is_close(self) -> bool:
        """Whether the best takes few more rounds than the goal with the first seeds, whatever it does with others."""
        target = self.cell.targets[-1]
        took = self.first_took(self.leader(target), target)
        return took is not None and self.cell.goal is not None and took <= CLOSE * self.cell.goal

    def over(self) -> float:
        """How many times the goal's rounds it takes; 0 where there is no goal."""
        took, goal = self.found.rounds(self.cell.targets[-1]), self.cell.goal
        return 0.0 if goal is None else np.inf if took is None else took / goal

    def got_there(self, point: Point, target: float) -> bool:
        """Whether that run reached the target."""
        return any(t.reached(target) is not None for t in self.trials if t.point == point)


def wider(rates: Sequence[float], winner: float, step: float = 1) -> list[float]:
    """The rates to try next: beyond the edge, if the best is there.

    >>> wider([0.1, 0.215, 0.464], 0.464), wider([0.1, 0.215, 0.464], 0.215)
    ([1.0], [])
    """
    sides = [1] * (winner == max(rates)) + [-1] * (winner == min(rates))
    return [neighbour(winner, side * step) for side in sides]


def is_done(trial: Trial, target: float) -> bool:
    """Whether a run would go no further towards a target: it is there, or did not just stop at an easier one."""
    return trial.reached(target) is not None or " reached " not in trial.ended
