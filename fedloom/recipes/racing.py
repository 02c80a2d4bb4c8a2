"""Racing: trials of a cell side by side, until each is there, has failed, or cannot win any more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree

from fedloom.algorithms import Method
from fedloom.data import FederatedData
from fedloom.engines import Compiled
from fedloom.errors import CheckpointError
from fedloom.recipes.cell import ACCURACY, Cell, Point, Trial
from fedloom.recipes.conduct import Conduct
from fedloom.runs.history import History
from fedloom.runs.ongoing import Race
from fedloom.runs.record import Record
from fedloom.runs.restore import standing
from fedloom.runs.result import Run
from fedloom.runs.settings import Settings
from fedloom.runs.stopping import Stop
from fedloom.runs.sweep import with_number

LAG = 1.5  # whoever takes so many times the leader's rounds to an accuracy has lost, once the leader is near the target
PATIENCE = 2.5  # the same where rates decay, and a large one is slow until it has become small; or where chance decides
SLACK = 1.5  # times the rounds of the slowest seed that another rate may take with one of its seeds
FAILED = 3  # and whoever takes so many times the rounds of another seed at the same rate has failed
WARM = 5  # evaluations before anybody can lose
EARLY = 0.2  # of the rounds of a leader that ran before, until which nobody can: large rates may begin slowly


@dataclass(frozen=True)
class Ended:
    """Trials that ended, and the seconds of computing that they are to be charged with."""

    trials: list[Trial]
    seconds: float


@dataclass(frozen=True)
class Course:
    """Where the trials of a cell run.

    Arguments:
        cell: what they are trials of.
        data: the data of its experiment.
        engine: where they are computed: side by side on an accelerator, one after another on a CPU.
        conduct: how they are carried out.
    """

    cell: Cell
    data: FederatedData
    engine: Compiled
    conduct: Conduct = field(default_factory=Conduct)

    def race(
        self,
        points: Sequence[Point],
        before: Sequence[Trial] = (),
        raced: bool = True,
        seeds: int = 1,
        target: float | None = None,
        capped: bool = True,
        forgets: bool = True,
    ) -> Iterator[Ended]:
        """Run points to a target, the last if none is given, side by side as far as they fit: the trials of one group
        after another. Raced against each other and those before, with so many seeds each, whoever cannot win any more
        stops; not raced, only who has failed. Capped, all stop when the best before was there. What was stopped before
        goes on; what has ended is forgotten, since whoever is given it takes note of it, unless that is not wanted.

        Raises:
            TimeoutError: when the time is over, and KeyboardInterrupt, when it is asked to stop; those that had ended
                have been given then, and the others are kept.
        """
        target = target or self.cell.targets[-1]
        over = [trial for point in points if (trial := self.ended(point))]
        if over:
            yield Ended(over, 0.0)  # whoever was in their group is charged with it
            self.forget(over if forgets else ())
        alone = self.each_alone(raced)
        before = [*before, *(() if alone else over)]
        for group in self.groups([point for point in points if point not in {trial.point for trial in over}]):
            most = fewest(before, seeds, target) if capped else None
            rule = losing(target, group, before, self.lag(group)) if raced else failing(target, group, before)
            runs = self.run(group, target, most, rule)
            done = [not run.interrupted for run in runs]
            trials = [
                Trial(*point, ending(run.stopped), curve(run.history))
                for run, point, is_whole in zip(runs, group, done, strict=True) if is_whole
            ]  # fmt: skip
            took = max(run.history.last("seconds") for run in runs)
            yield Ended(trials, took if all(done) else 0.0)
            self.forget(trials if forgets else ())
            self.conduct.whole(runs)
            before = [*before, *(() if alone else trials)]

    @property
    def one_of_many(self) -> bool:
        """Whether a cohort is one client of many: how a rate does in any one round is mostly chance then."""
        return len(self.data) > 1 and self.cell.experiment.build_algorithm().cohort(len(self.data)) == 1

    def lag(self, points: Sequence[Point]) -> float:
        """How many times the leader's rounds it may take."""
        return PATIENCE if self.one_of_many or any(decay != 1 for _, decay, _ in points) else LAG

    def each_alone(self, raced: bool) -> bool:
        """Whether those that run together are not measured against each other: side by side, unless they race, for who
        has ended when they are stopped and go on is chance.
        """
        return not raced and self.size > 1

    def run(self, group: Sequence[Point], target: float, most: float | None, race: Race) -> list[Run]:
        """Run some points side by side, for so many rounds at most."""
        e = self.cell.experiment
        cap = e.rounds if most is None else min(e.rounds, -int(-most // e.every) * e.every)
        stop = Stop(max(cap, 1), None, target, None, ACCURACY)
        labels = [f"{self.cell.name} {called(point)}" for point in group]
        algorithms, seeds = [self.algorithm(*point) for point in group], [seed for *_, seed in group]
        settings = Settings(stop, ("test",), e.every)
        return self.conduct.train(
            self.data, e.build_task(self.data), algorithms, seeds, settings, labels, self.engine, race
        )

    def algorithm(self, lr: float, decay: float, seed: int = 0) -> Method:  # noqa: ARG002
        """The cell's algorithm with a learning rate and a decay."""
        changed = with_number(self.cell.experiment.build_algorithm(), ("local", "batches", "lr"), lr)
        tuned: Method = with_number(changed, ("local", "batches", "decay"), decay)
        return tuned

    def groups(self, points: Sequence[Point]) -> Iterator[Sequence[Point]]:
        """Those that run side by side: as many as fit, of those that are in the same round."""
        rounds = dict[int, list[Point]]()
        for point in points:
            stored = self.stored(point)
            rounds.setdefault(stored.round if stored else -1, []).append(point)
        for together in rounds.values():
            yield from (together[start : start + self.size] for start in range(0, len(together), self.size))

    @property
    def size(self) -> int:
        """How many fit side by side."""
        e = self.cell.experiment
        return self.engine.group(self.data, e.build_task(self.data), e.build_algorithm())

    def ended(self, point: Point) -> Trial | None:
        """A run that had ended, but was not taken note of."""
        stored = self.stored(point)
        return Trial(*point, ending(stored.stopped), curve(stored.history)) if stored and stored.has_ended else None

    def stored(self, point: Point) -> Record | None:
        """How far a run had come, if it had begun."""
        place = self.place(point)
        try:
            return standing(place)
        except CheckpointError as error:
            raise CheckpointError(f"{place} is damaged: delete it, and it is computed again") from error

    def place(self, point: Point) -> Path | None:
        """Where a run is kept."""
        return self.conduct.place(f"{self.cell.name} {called(point)}")

    def forget(self, trials: Sequence[Trial]) -> None:
        """Remove runs that were taken note of."""
        for trial in trials:
            if place := self.place(trial.point):
                rmtree(place, ignore_errors=True)


def fewest(trials: Sequence[Trial], seeds: int, target: float) -> float | None:
    """The rounds after which who is not at a target cannot be the best: the fewest that some setting took with its
    slowest seed, and with several seeds some more, for its mean may be better; ``None`` if none got there.
    """
    took: dict[tuple[float, float], list[float]] = {}
    for t in trials:
        if t.seed < seeds and (rounds := t.crossing(target)) is not None:
            took.setdefault(t.setting, []).append(rounds)
    slowest = [max(each) for each in took.values() if len(each) == seeds]
    return min(slowest) * (SLACK if seeds > 1 else 1) if slowest else None


def called(point: Point) -> str:
    """What a run is called.

    >>> called((0.1, 1.0, 0)), called((0.215, 0.99, 2))
    ('lr=0.1 seed=0', 'lr=0.215 decay=0.99 seed=2')
    """
    lr, decay, seed = point
    return f"lr={lr:g}" + (f" decay={decay:g}" if decay != 1 else "") + f" seed={seed}"


def ending(stopped: str) -> str:
    """Why a run stopped, in few words."""
    return "diverged" if stopped.startswith("diverged") else stopped


def curve(history: History) -> tuple[tuple[int, float], ...]:
    """The test accuracies of a run's rounds."""
    return tuple((int(row["round"]), float(row[ACCURACY])) for row in history.rows)


def losing(
    target: float, points: Sequence[Point], rivals: Sequence[Trial], lag: float = LAG
) -> Callable[[Sequence[History]], Collection[int]]:
    """Who need not go on: everybody, once a rate has reached the target with all its seeds; and rates that, with some
    seed, are far behind a leader that is near the target (at nine tenths of it, with at most twice its errors).
    """
    near, settings = max(1 - 2 * (1 - target), 0.9 * target), [(lr, decay) for lr, decay, _ in points]
    failed = {t.setting for t in rivals if t.reached(target) is None}

    def over(histories: Sequence[History]) -> Collection[int]:
        there = [h.reached(ACCURACY, target) is not None for h in histories]
        short = {s for s, t in zip(settings, there, strict=True) if not t} | failed
        if set(settings) - short:
            return range(len(histories))
        running = [(seed, h) for (*_, seed), h in zip(points, histories, strict=True)]
        leaders = [(seed, h) for seed, h in (*((t.seed, t.history) for t in rivals), *running)
                   if h.best(ACCURACY) >= near]  # fmt: skip
        lost = {setting for setting, (seed, h) in zip(settings, running, strict=True)
                if any(seed == whose and is_behind(h, leader, lag) for whose, leader in leaders)}  # fmt: skip
        return [i for i, setting in enumerate(settings) if setting in lost]

    return over


def failing(
    target: float, points: Sequence[Point], before: Sequence[Trial]
) -> Callable[[Sequence[History]], Collection[int]]:
    """Who need not go on: whoever is far behind another seed that got there at the same rate."""
    ahead = [[t.history for t in before if t.point[:2] == point[:2] and t.reached(target) is not None]
             for point in points]  # fmt: skip

    def over(histories: Sequence[History]) -> Collection[int]:
        return [i for i, h in enumerate(histories) if any(is_behind(h, other, FAILED) for other in ahead[i])]

    return over


def is_behind(history: History, leader: History, lag: float) -> bool:
    """Whether the leader was there so many times sooner."""
    early = len(history) <= WARM or history.last("round") < EARLY * leader.last("round")
    if early or history is leader:
        return False
    there = leader.crossing(ACCURACY, history.best(ACCURACY))
    return there is not None and lag * there < history.last("round")
