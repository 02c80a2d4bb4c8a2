from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedloom.recipes.conduct as conduct
import fedloom.recipes.tuning as tuning
from fedloom.data import FederatedData
from fedloom.engines import Compiled, compiled
from fedloom.recipes.cell import Cell, Point, Trial
from fedloom.recipes.partial import Partial
from fedloom.recipes.racing import Course, Ended
from fedloom.runs import Experiment
from fedloom.runs.history import History
from fedloom.runs.result import Run
from fedloom.tasks import Variables

TOY = Experiment(model="logistic", fraction=0.5, target=0.8, rounds=40, evaluate="test")


def test_the_grid_is_the_papers() -> None:
    assert tuning.grid(1.0, 4) == [0.215, 0.464, 1.0, 2.15]
    assert tuning.wider([0.1, 0.215], 0.1) == [0.0464]
    assert tuning.wider([0.1], 0.1) == [0.215, 0.0464]


@pytest.mark.parametrize("lanes", [None, 2])
def test_tuning_finds_a_rate_and_repeats_it(generated: Callable[..., FederatedData], lanes: int | None) -> None:
    """One after another, as on a CPU, and side by side, as on an accelerator: the best rate is the same."""
    data = generated([20] * 6, test=200)
    cell = Cell("toy", TOY, rate=0.1, targets=(0.6, 0.8))
    found = tuning.tune(Course(cell, data, compiled(lanes=lanes, devices=1)), rates=3, seeds=2)
    for target in cell.targets:
        assert found.rounds(target) is not None
        assert [t.seed for t in found.chosen(target)] == [0, 1]
    rates = [lr for lr, _ in found.settings]
    assert min(rates) < found.winner(0.8)[0] < max(rates)  # widened until the best is inside
    first = found.chosen(0.8)[0].crossing(0.8)
    for other in (t for t in found.trials if t.setting != found.winner(0.8)):
        assert other.crossing(0.8) is None or other.crossing(0.8) >= first  # type: ignore[operator]


def test_a_decay_is_tuned_too(generated: Callable[..., FederatedData]) -> None:
    data = generated([20] * 6, test=200)
    cell = Cell("toy", TOY, rate=0.1, decays=(1.0, 0.1), targets=(0.8,))
    found = tuning.tune(Course(cell, data, compiled()), rates=3, seeds=2)
    rates = {lr for lr, _ in found.settings}
    assert len(rates) >= 3
    assert found.settings == sorted((lr, decay) for lr in rates for decay in cell.decays)
    others = [c for t in found.trials if t.seed == 0 and (c := t.crossing(0.8)) is not None]
    assert found.chosen(0.8)[0].crossing(0.8) == min(others)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.1 takes 30 rounds, 0.215 takes 20 with the first seed and fails with the others."""

    def race(_: Course, points: Sequence[Point], *_others: Any) -> Iterator[Ended]:
        took = {0.1: 30, 0.215: 20}
        curves = [((0, 0.5), (took[lr], 0.99)) if lr == 0.1 or (lr == 0.215 and seed == 0) else ((0, 0.5),)
                  for lr, _, seed in points]  # fmt: skip
        yield Ended([Trial(*point, "", curve) for point, curve in zip(points, curves, strict=True)], 1.0)

    monkeypatch.setattr(Course, "race", race)


@pytest.mark.usefixtures("scripted")
def test_a_rate_that_fails_with_some_seed_gives_way_to_a_smaller(generated: Callable[..., FederatedData]) -> None:
    found = tuning.tune(Course(Cell("toy", Experiment(), rate=0.1), generated([5]), compiled()), rates=5, seeds=3)
    assert found.winner(0.99) == (0.1, 1.0)
    assert found.rounds(0.99) == 30
    assert len({(t.lr, t.decay, t.seed) for t in found.trials}) == len(found.trials)


def test_the_likeliest_rate_runs_first(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = list[float]()

    def race(_: Course, points: Sequence[Point], *_others: Any) -> Iterator[Ended]:
        ran.extend(lr for lr, *_ in points)
        yield Ended([Trial(*point, "", ((0, 0.5),)) for point in points], 1.0)

    monkeypatch.setattr(Course, "race", race)
    tuning.tune(Course(Cell("toy", Experiment(), rate=0.1), generated([5]), compiled()), rates=3, seeds=1)
    assert ran[0] == 0.1
    assert sorted(ran[:3]) == [0.0464, 0.1, 0.215]


@pytest.mark.usefixtures("scripted")
def test_what_nobody_reaches_is_not_repeated(generated: Callable[..., FederatedData]) -> None:
    found = tuning.tune(Course(Cell("toy", Experiment(), rate=1e4), generated([5]), compiled()), rates=1, seeds=3)
    assert {t.seed for t in found.trials} == {0}


@pytest.mark.usefixtures("scripted")
def test_a_goal_that_is_missed_is_worth_a_finer_grid(generated: Callable[..., FederatedData]) -> None:
    data, engine = generated([5]), compiled()
    rates = lambda goal: [lr for lr, _ in tuning.tune(  # noqa: E731
        Course(Cell("toy", Experiment(), rate=0.1, goal=goal), data, engine), seeds=1).settings]  # fmt: skip
    assert rates(20) == rates(None) == [0.0464, 0.1, 0.215, 0.464]
    assert rates(18) == [0.0464, 0.1, 0.147, 0.215, 0.316, 0.464]
    assert rates(19) == [0.0464, 0.1, 0.147, 0.178, 0.215, 0.261, 0.316, 0.464]  # missed by little


def test_a_goal_that_is_missed_is_worth_every_seed_of_every_rate_that_got_there(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    took = {(0.1, 0): 15, (0.1, 1): 20, (0.1, 2): 25, (0.0681, 0): 16, (0.0681, 1): 17, (0.0681, 2): 15}

    def race(_: Course, points: Sequence[Point], *_others: Any) -> Iterator[Ended]:
        found = [took.get((lr, seed)) for lr, _, seed in points]
        yield Ended([Trial(*point, "", ((0, 0.5), (n, 0.99)) if n else ((0, 0.5),))
               for point, n in zip(points, found, strict=True)], 1.0)  # fmt: skip

    monkeypatch.setattr(Course, "race", race)
    tuned = lambda goal: tuning.tune(  # noqa: E731
        Course(Cell("toy", Experiment(), rate=0.1, goal=goal), generated([5]), compiled()), seeds=3
    )
    assert (tuned(21).winner(0.99), tuned(21).rounds(0.99)) == ((0.1, 1.0), 20)
    assert (tuned(19).winner(0.99), tuned(19).rounds(0.99)) == ((0.0681, 1.0), 16)


def test_a_race_is_over_when_the_fastest_before_was_there(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    caps, train = [], conduct.train

    def spied(*arguments: Any) -> Any:
        caps.append((arguments[4], arguments[5].stop.rounds))
        return train(*arguments)

    monkeypatch.setattr(conduct, "train", spied)
    cell = Cell("toy", TOY, rate=0.464, targets=(0.8,))
    found = tuning.tune(Course(cell, generated([20] * 6, test=200), compiled()), rates=3, seeds=2)
    trials = [t for t in found.trials if t.seed == 0]
    assert len(trials) >= 3
    for i, (seeds, cap) in enumerate(caps):
        earlier = [c for t in trials[:i] if (c := t.crossing(0.8)) is not None]
        wanted = int(np.ceil(min(earlier))) if earlier and seeds == [0] else TOY.rounds
        assert cap == wanted, i
    assert min(cap for _, cap in caps) < TOY.rounds


def test_finer_rates_are_tried_before_any_is_repeated_and_those_far_behind_are_not(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    took, ran = {0.1: 20, 0.0681: 26, 0.147: 24}, list[tuple[float, int]]()

    def race(_: Course, points: Sequence[Point], *_others: Any) -> Iterator[Ended]:
        ran.extend((lr, seed) for lr, _, seed in points)
        yield Ended([Trial(*point, "", ((0, 0.5), (took[point[0]], 0.99)) if point[0] in took else ((0, 0.5),))
               for point in points], 1.0)  # fmt: skip

    monkeypatch.setattr(Course, "race", race)
    tuned = lambda goal: tuning.tune(  # noqa: E731
        Course(Cell("toy", Experiment(), rate=0.1, goal=goal), generated([5]), compiled()), seeds=2
    )
    tuned(17)
    assert ran[:3] == [(0.1, 0), (0.0464, 0), (0.215, 0)]
    assert sorted(ran[3:5]) == [(0.0681, 0), (0.147, 0)]
    assert ran[5:] == [(0.1, 1), (0.147, 1)]  # 0.0681 took more than 1.25 times as long
    ran.clear()
    tuned(10)
    assert ran[5:] == [(0.1, 1)]  # which is so far from the goal that no other seed would bring it there


@pytest.mark.parametrize(("rounds", "repeated"), [(200, [0.215, 0.1]), (42, [0.215])])
def test_a_smaller_rate_is_repeated_if_there_is_time_for_it(
    rounds: int, repeated: list[float], generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.215 takes 20 rounds with the first seed and fails with the next; 0.1 may take 2.15 times as many."""
    ran = list[tuple[float, int]]()

    def race(_: Course, points: Sequence[Point], *_others: Any) -> Iterator[Ended]:
        ran.extend((lr, seed) for lr, _, seed in points)
        there = lambda lr, seed: lr == 0.215 and seed == 0  # noqa: E731
        yield Ended([Trial(lr, decay, seed, "", ((0, 0.5), (20, 0.99)) if there(lr, seed) else ((0, 0.5),))
                     for lr, decay, seed in points], 1.0)  # fmt: skip

    monkeypatch.setattr(Course, "race", race)
    cell = Cell("toy", Experiment(rounds=rounds), rate=0.215)
    tuning.tune(Course(cell, generated([5]), compiled()), seeds=2)
    assert [lr for lr, seed in ran if seed == 1] == repeated


@pytest.mark.parametrize(
    ("got_there", "goal", "best"),
    [
        ({(0.1, 0): 20, (0.147, 0): 22, (0.147, 1): 22}, 18, 0.147),  # the fastest fails; a larger is near the goal too
        ({(0.1, 0): 20, (0.147, 0): 22, (0.147, 1): 22}, 15, 0.1),  # far from the goal, that is not looked for
        ({(0.215, 0): 20, (0.1, 1): 30, (0.0464, 0): 60, (0.0464, 1): 60}, None, 0.0464),  # 0.1 fails with the other
    ],
)
def test_where_the_best_fails_with_some_seed_others_are_repeated(
    got_there: dict[tuple[float, int], int],
    goal: int | None,
    best: float,
    generated: Callable[..., FederatedData],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def race(_: Course, points: Sequence[Point], _before: Any, raced: bool, *_others: Any) -> Iterator[Ended]:
        slow = lambda lr: raced and lr < 0.1 and goal is None  # noqa: E731 - is overtaken with the first seed
        found = [None if slow(lr) else got_there.get((lr, seed)) for lr, _, seed in points]
        yield Ended([Trial(*point, "", ((0, 0.5), (n, 0.99)) if n else ((0, 0.5),))
               for point, n in zip(points, found, strict=True)], 1.0)  # fmt: skip

    monkeypatch.setattr(Course, "race", race)
    cell = Cell("toy", Experiment(), rate=max(lr for lr, _ in got_there if lr != 0.147), goal=goal)
    found = tuning.tune(Course(cell, generated([5]), compiled()), seeds=2)
    assert found.winner(0.99)[0] == best
    assert (found.rounds(0.99) is None) == (best == 0.1)


def test_of_smaller_rates_one_that_got_there_is_repeated_before_the_grids_next(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.316 is the fastest, of a finer grid, and fails with some seed: 0.215 got there, and is nearer than 0.147."""
    took, ran = {0.215: 30, 0.316: 20}, list[float]()

    def race(_: Course, points: Sequence[Point], *_others: Any) -> Iterator[Ended]:
        ran.extend(lr for lr, _, seed in points if seed == 1)
        there = lambda lr, seed: lr == 0.215 or (lr == 0.316 and seed == 0)  # noqa: E731
        yield Ended([Trial(lr, decay, seed, "", ((0, 0.5), (took[lr], 0.99)) if there(lr, seed) else ((0, 0.5),))
                     for lr, decay, seed in points], 1.0)  # fmt: skip

    monkeypatch.setattr(Course, "race", race)
    found = tuning.tune(Course(Cell("toy", Experiment(), rate=0.215, goal=10), generated([5]), compiled()), seeds=2)
    assert ran == [0.316, 0.215]
    assert found.rounds(0.99) == 30


def test_a_finer_grid_has_the_best_decay(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    took, asked = {(0.1, 1.0): 30, (0.1, 0.5): 20}, list[tuple[float, float]]()

    def race(_: Course, points: Sequence[Point], *_others: Any) -> Iterator[Ended]:
        asked.extend((lr, decay) for lr, decay, _ in points)
        found = [took.get((lr, decay)) for lr, decay, _ in points]
        yield Ended([Trial(*point, "", ((0, 0.5), (n, 0.99)) if n else ((0, 0.5),))
               for point, n in zip(points, found, strict=True)], 1.0)  # fmt: skip

    monkeypatch.setattr(Course, "race", race)
    cell = Cell("toy", Experiment(), rate=0.1, decays=(1.0, 0.5), goal=10)
    found = tuning.tune(Course(cell, generated([5]), compiled()), seeds=1)
    assert found.winner(0.99) == (0.1, 0.5)
    coarse = [(lr, decay) for lr in (0.1, 0.0464, 0.215) for decay in (1.0, 0.5)]
    assert asked == [*coarse, (0.0681, 0.5), (0.147, 0.5)]


def test_the_step_of_a_grid_is_that_of_its_widening(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[float]()

    def race(_: Course, points: Sequence[Point], *_others: Any) -> Iterator[Ended]:
        asked.extend(lr for lr, *_ in points)
        yield Ended([Trial(*point, "", ((0, 0.5), (round(100 * point[0]), 0.99))) for point in points], 1.0)

    monkeypatch.setattr(Course, "race", race)
    monkeypatch.setattr(tuning, "WIDEST", 2)
    cell = Cell("toy", Experiment(), rate=0.316, step=0.5)
    tuning.tune(Course(cell, generated([5]), compiled()), seeds=1)
    assert asked[:5] == [0.316, 0.215, 0.464, 0.147, 0.1]


def test_where_a_rate_decays_a_seed_that_fails_is_not_repeated_with_a_smaller(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    def race(_: Course, points: Sequence[Point], *_others: Any) -> Iterator[Ended]:
        there = [point == (0.1, 0.9, 0) for point in points]
        yield Ended([Trial(*point, "", ((0, 0.5), (9, 0.99 if good else 0.98)))
               for point, good in zip(points, there, strict=True)], 1.0)  # fmt: skip

    monkeypatch.setattr(Course, "race", race)
    found = tuning.tune(Course(Cell("toy", Experiment(), 0.1, (0.9,)), generated([5]), compiled()), seeds=2)
    assert sorted(t.point for t in found.trials if t.seed == 1) == [(0.1, 0.9, 1)]
    assert found.rounds(0.99) is None


def test_the_grid_is_widened_for_the_rate_that_does_not_fail(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    # 0.1 is the fastest with the first seed and fails with the second; below 0.0464, the grid's edge, is a faster one.
    took = {(0.1, 0): 30, (0.0464, 0): 40, (0.0464, 1): 40, (0.0215, 0): 35, (0.0215, 1): 35, (0.01, 0): 50}
    rivals = dict[float, set[float]]()

    def race(_: Course, points: Sequence[Point], *others: Any) -> Iterator[Ended]:
        before: Sequence[Trial] = others[0]
        rivals.update({lr: {t.lr for t in before} for lr, *_ in points if lr not in rivals})
        found = [took.get((lr, seed)) for lr, _, seed in points]
        yield Ended([Trial(*point, "", ((0, 0.5), (n, 0.99)) if n else ((0, 0.5),))
               for point, n in zip(points, found, strict=True)], 1.0)  # fmt: skip

    monkeypatch.setattr(Course, "race", race)
    found = tuning.tune(Course(Cell("toy", Experiment(), rate=0.1), generated([5]), compiled()), seeds=2)
    assert (found.winner(0.99), found.rounds(0.99)) == ((0.0215, 1.0), 35)
    assert [lr for lr, _ in found.settings] == [0.01, 0.0215, 0.0464, 0.1, 0.215]
    assert rivals[0.0215] == {0.0464}  # not with 0.1, which was there first


def test_what_had_ended_before_an_interrupt_is_kept(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    curve = History(
        ({"round": 0, "test_accuracy": 0.1, "seconds": 0}, {"round": 2, "test_accuracy": 0.9, "seconds": 1})
    )
    ends = (("test accuracy reached 0.8", "finished"), ("interrupted after 2 rounds", "interrupted"))
    ended = [Run("", curve, Variables({}, {}), *end) for end in ends]
    monkeypatch.setattr(conduct, "train", lambda *_: ended)
    monkeypatch.setattr(Compiled, "group", lambda *_: 2)
    cell, file = Cell("toy", TOY, rate=0.1, targets=(0.8,)), tmp_path / "toy.partial"
    with pytest.raises(KeyboardInterrupt):
        tuning.tune(Course(cell, generated([20] * 6, test=200), compiled()), rates=2, seeds=2, partial=Partial(file))
    assert [point for point, _ in Partial(file).trials] == [(0.1, 1.0, 0)]


def test_an_easier_target_is_repeated_no_further_than_that(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    # 0.1 is first at 0.99, 0.215 at 0.8.
    rounds = {0.1: {0.8: 20, 0.99: 30}, 0.215: {0.8: 10, 0.99: 50}}
    asked = []

    def race(_: Course, points: Sequence[Point], *others: Any) -> Iterator[Ended]:
        target: float = others[3]
        asked.extend([(target, points)] if points else [])
        took = [{a: n for a, n in rounds.get(lr, {}).items() if a <= target} for lr, *_ in points]
        yield Ended([Trial(*point, f"test accuracy reached {target:g}", ((0, 0.5), *((n, a) for a, n in way.items())))
               for point, way in zip(points, took, strict=True)], 1.0)  # fmt: skip

    monkeypatch.setattr(Course, "race", race)
    cell = Cell("toy", Experiment(), rate=0.1, targets=(0.8, 0.99))
    found = tuning.tune(Course(cell, generated([5]), compiled()), seeds=2)
    assert asked[1:] == [(0.99, [(0.1, 1.0, 1)]), (0.8, [(0.215, 1.0, 1)])]
    assert (found.winner(0.99), found.rounds(0.99)) == ((0.1, 1.0), 30)
    assert (found.winner(0.8), found.rounds(0.8)) == ((0.215, 1.0), 10)


def test_a_run_that_stopped_at_an_easier_target_is_not_done() -> None:
    ran = lambda ended: Trial(0.1, 1.0, 0, ended, ((0, 0.5), (9, 0.8)))  # noqa: E731
    assert tuning.is_done(ran("test accuracy reached 0.8"), 0.8)
    assert not tuning.is_done(ran("test accuracy reached 0.8"), 0.85)
    assert tuning.is_done(ran("did 9 rounds"), 0.85)


def test_where_a_cohort_is_one_client_all_seeds_race(generated: Callable[..., FederatedData]) -> None:
    cell = Cell("toy", TOY.replace(fraction=0.0), rate=0.1, targets=(0.8,))
    found = tuning.tune(Course(cell, generated([20] * 6, test=200), compiled(lanes=1, devices=1)), rates=1, seeds=2)
    assert found.rounds(0.8) is not None
    for setting in found.settings:
        assert sorted(t.seed for t in found.trials if t.setting == setting) == [0, 1]


def test_where_there_is_but_one_client_one_seed_races(generated: Callable[..., FederatedData]) -> None:
    cell = Cell("toy", TOY.replace(fraction=1.0), rate=0.1, targets=(0.8,))
    found = tuning.tune(Course(cell, generated([120], test=200), compiled(lanes=1, devices=1)), rates=3, seeds=2)
    best = found.winner(0.8)
    assert {t.seed for t in found.trials if t.setting == best} == {0, 1}
    assert {t.seed for t in found.trials if t.setting != best} == {0}


@pytest.mark.parametrize(("size", "seeds"), [(1, [0, 1]), (4, [0])])
def test_seeds_side_by_side_are_not_measured_against_those_that_had_ended_when_they_were_stopped(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch, size: int, seeds: list[int]
) -> None:
    given = []

    def race(_: Course, points: Sequence[Point], before: Sequence[Trial], *_others: Any) -> Iterator[Ended]:
        given.append((points, sorted(t.seed for t in before)))
        yield from ()

    monkeypatch.setattr(Course, "race", race)
    monkeypatch.setattr(Course, "size", size)
    partial, trial = Partial(), lambda seed: Trial(0.1, 1.0, seed, "test accuracy reached 0.99", ((0, 0.1), (9, 0.99)))
    partial.add([trial(0)], True, 1.0)
    partial.add([trial(1)], False, 1.0)
    search = tuning.Tuning(Course(Cell("toy", TOY, rate=0.1), generated([5]), compiled()), 3, partial)
    search.run([(0.1, 1.0, 0)], True, 0.99)
    search.run([(0.1, 1.0, 1), (0.1, 1.0, 2)], False, 0.99)
    assert given[-1] == ([(0.1, 1.0, 2)], seeds)  # one after another, the second is measured against the first


def test_a_cell_that_was_stopped_goes_on(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cell, data, engine = Cell("toy", TOY, rate=0.1, targets=(0.8,)), generated([20] * 6, test=200), compiled()
    whole = tuning.tune(Course(cell, data, engine), rates=3, seeds=2)
    run, calls = conduct.train, []

    def train(*arguments: object) -> object:
        calls.append(arguments[7])  # type: ignore[arg-type]
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(conduct, "train", train)
    with pytest.raises(KeyboardInterrupt):
        tuning.tune(Course(cell, data, engine), rates=3, seeds=2, partial=Partial(tmp_path / "toy.partial"))
    again = tuning.tune(Course(cell, data, engine), rates=3, seeds=2, partial=Partial(tmp_path / "toy.partial"))
    assert [label for [label] in calls].count(calls[0][0]) == 1  # what was done is not done again
    assert {t.point: t.ended for t in again.trials} == {t.point: t.ended for t in whole.trials}
    assert again.rounds(0.8) == pytest.approx(whole.rounds(0.8), abs=1e-3)
