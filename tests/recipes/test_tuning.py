from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedloom.recipes.tuning as tuning
from fedloom.data import FederatedData
from fedloom.engines import Compiled, compiled
from fedloom.recipes.cell import Cell, Outcome, Point, Trial
from fedloom.recipes.partial import Partial
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
    found = tuning.tune(cell, data, compiled(lanes=lanes, devices=1), rates=3, seeds=2)
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
    found = tuning.tune(cell, data, compiled(), rates=3, seeds=2)
    rates = {lr for lr, _ in found.settings}
    assert len(rates) >= 3
    assert found.settings == sorted((lr, decay) for lr in rates for decay in cell.decays)
    others = [c for t in found.trials if t.seed == 0 and (c := t.crossing(0.8)) is not None]
    assert found.chosen(0.8)[0].crossing(0.8) == min(others)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.1 takes 30 rounds, 0.215 takes 20 with the first seed and fails with the others."""

    def race(*arguments: object) -> Iterator[list[Trial]]:
        points: list[Point] = arguments[3]  # type: ignore[assignment]
        took = {0.1: 30, 0.215: 20}
        curves = [((0, 0.5), (took[lr], 0.99)) if lr == 0.1 or (lr == 0.215 and seed == 0) else ((0, 0.5),)
                  for lr, _, seed in points]  # fmt: skip
        yield [Trial(*point, "", curve) for point, curve in zip(points, curves, strict=True)]

    monkeypatch.setattr(tuning, "race", race)


@pytest.mark.usefixtures("scripted")
def test_a_rate_that_fails_with_some_seed_gives_way_to_a_smaller(generated: Callable[..., FederatedData]) -> None:
    found = tuning.tune(Cell("toy", Experiment(), rate=0.1), generated([5]), compiled(), rates=5, seeds=3)
    assert found.winner(0.99) == (0.1, 1.0)
    assert found.rounds(0.99) == 30
    assert len({(t.lr, t.decay, t.seed) for t in found.trials}) == len(found.trials)


@pytest.mark.usefixtures("scripted")
def test_what_nobody_reaches_is_not_repeated(generated: Callable[..., FederatedData]) -> None:
    found = tuning.tune(Cell("toy", Experiment(), rate=1e4), generated([5]), compiled(), rates=1, seeds=3)
    assert {t.seed for t in found.trials} == {0}


def history(*accuracies: float) -> History:
    return History(tuple({"round": i, "test_accuracy": a} for i, a in enumerate(accuracies)))


def test_a_race_ends_when_a_rate_is_there_with_all_its_seeds() -> None:
    half, most, there = history(0.1, 0.5), history(0.1, 0.6), history(0.1, 0.9)
    over = tuning.losing(0.9, [(0.1, 1.0, 0), (0.2, 1.0, 0)], [])
    assert list(over([half, most])) == []
    assert list(over([half, there])) == [0, 1]
    over = tuning.losing(0.9, [(0.1, 1.0, 0), (0.1, 1.0, 1), (0.2, 1.0, 0), (0.2, 1.0, 1)], [])
    assert list(over([half, there, there, most])) == []
    assert list(over([half, there, there, there])) == [0, 1, 2, 3]


def test_whoever_takes_half_as_many_rounds_again_as_the_leader_has_lost() -> None:
    leader, slow = (history(*([0.0] + [top] * 12)) for top in (0.85, 0.5))
    pair, alone = [(0.1, 1.0, 0), (0.2, 1.0, 0)], [(0.2, 1.0, 0)]
    before = [Trial(0.1, 1.0, 0, "", tuple((i, 0.85 if i else 0.0) for i in range(13)))]
    assert list(tuning.losing(0.9, pair, [])([leader, slow])) == [1]  # the leader had 50 % in round 0.6, now is 12
    assert list(tuning.losing(0.9, alone, before)([slow])) == [0]  # a leader of an earlier group counts too
    assert list(tuning.losing(0.9, [(0.2, 1.0, 1)], before)([slow])) == []  # but not one with another seed
    far = [Trial(0.1, 1.0, 0, "", tuple((i, 0.7 if i else 0.0) for i in range(13)))]
    assert list(tuning.losing(0.9, alone, far)([slow])) == []  # nobody is near 90 % yet
    short = history(*([0.0] + [0.5] * 4))
    assert list(tuning.losing(0.9, alone, before)([short])) == []  # too early to tell
    long = [Trial(0.1, 1.0, 0, "", tuple((i, 0.85 if i else 0.0) for i in range(100)))]
    assert list(tuning.losing(0.9, alone, long)([slow])) == []  # and so are 12 of 99 rounds
    steady = [Trial(0.1, 1.0, 0, "", tuple((i, 0.1 * min(i, 9)) for i in range(16)))]  # 50 % in round 5
    half = lambda rounds: history(*([0.0] * 4 + [0.5] * (rounds - 3)))  # noqa: E731
    assert list(tuning.losing(0.9, alone, steady)([half(7)])) == []
    assert list(tuning.losing(0.9, alone, steady)([half(8)])) == [0]  # more than 1.5 · 5


def test_whoever_takes_three_times_the_rounds_of_another_seed_has_failed() -> None:
    reached = Trial(0.1, 1.0, 0, "", tuple((i, 0.1 * i) for i in range(10)))  # 50 % in round 5, 90 % in round 9
    stuck = lambda rounds: history(*([0.0] + [0.5] * rounds))  # noqa: E731
    repeated = tuning.failing(0.9, [(0.1, 1.0, 1), (0.1, 1.0, 2)], [reached])
    assert list(repeated([stuck(15), stuck(16)])) == [1]
    assert list(tuning.failing(0.9, [(0.2, 1.0, 1)], [reached])([stuck(16)])) == []  # another rate's
    assert list(tuning.failing(0.95, [(0.1, 1.0, 1)], [reached])([stuck(16)])) == []  # which did not get there either


@pytest.mark.usefixtures("scripted")
def test_a_goal_that_is_missed_is_worth_a_finer_grid(generated: Callable[..., FederatedData]) -> None:
    data, engine = generated([5]), compiled()
    rates = lambda goal: [lr for lr, _ in tuning.tune(  # noqa: E731
        Cell("toy", Experiment(), rate=0.1, goal=goal), data, engine, seeds=1).settings]  # fmt: skip
    assert rates(20) == rates(None) == [0.0464, 0.1, 0.215, 0.464]
    assert rates(18) == [0.0464, 0.1, 0.147, 0.215, 0.316, 0.464]
    assert rates(19) == [0.0464, 0.1, 0.147, 0.178, 0.215, 0.261, 0.316, 0.464]  # missed by little


def test_a_goal_that_is_missed_is_worth_every_seed_of_every_rate_that_got_there(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    took = {(0.1, 0): 15, (0.1, 1): 20, (0.1, 2): 25, (0.0681, 0): 16, (0.0681, 1): 17, (0.0681, 2): 15}

    def race(*arguments: object) -> Iterator[list[Trial]]:
        points: list[Point] = arguments[3]  # type: ignore[assignment]
        found = [took.get((lr, seed)) for lr, _, seed in points]
        yield [Trial(*point, "", ((0, 0.5), (n, 0.99)) if n else ((0, 0.5),))
               for point, n in zip(points, found, strict=True)]  # fmt: skip

    monkeypatch.setattr(tuning, "race", race)
    tuned = lambda goal: tuning.tune(  # noqa: E731
        Cell("toy", Experiment(), rate=0.1, goal=goal), generated([5]), compiled(), seeds=3
    )
    assert (tuned(21).winner(0.99), tuned(21).rounds(0.99)) == ((0.1, 1.0), 20)
    assert (tuned(19).winner(0.99), tuned(19).rounds(0.99)) == ((0.0681, 1.0), 16)


def test_who_is_slower_than_the_slowest_seed_of_another_is_not_waited_for() -> None:
    there = lambda lr, seed, n: Trial(lr, 1.0, seed, "", ((0, 0.5), (n, 0.99)))  # noqa: E731
    trials = [there(0.1, 0, 30), there(0.1, 1, 10), there(0.2, 0, 25), Trial(0.2, 1.0, 1, "", ((0, 0.5),))]
    assert tuning.fewest(trials, 1, 0.99) == 25
    assert tuning.fewest(trials, 2, 0.99) == 45  # 0.2 was not there with the second; and means may differ
    assert tuning.fewest(trials, 3, 0.99) is None


def test_a_race_is_over_when_the_fastest_before_was_there(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    caps, train = [], tuning.train

    def spied(*arguments: Any) -> Any:
        caps.append((arguments[4], arguments[5].stop.rounds))
        return train(*arguments)

    monkeypatch.setattr(tuning, "train", spied)
    cell = Cell("toy", TOY, rate=0.464, targets=(0.8,))
    found = tuning.tune(cell, generated([20] * 6, test=200), compiled(), rates=3, seeds=2)
    trials = [t for t in found.trials if t.seed == 0]
    assert len(trials) >= 3
    for i, (seeds, cap) in enumerate(caps):
        earlier = [c for t in trials[:i] if (c := t.crossing(0.8)) is not None]
        wanted = int(np.ceil(min(earlier))) if earlier and seeds == [0] else TOY.rounds
        assert cap == wanted, i
    assert min(cap for _, cap in caps) < TOY.rounds


def test_whoever_decays_may_be_slow_at_first() -> None:
    steady = [Trial(0.1, 0.9, 0, "", tuple((i, 0.1 * min(i, 9)) for i in range(16)))]  # 50 % in round 5
    half = lambda rounds: history(*([0.0] * 4 + [0.5] * (rounds - 3)))  # noqa: E731
    over = tuning.losing(0.9, [(0.2, 0.9, 0)], steady)
    assert list(over([half(12)])) == []
    assert list(over([half(13)])) == [0]  # more than 2.5 · 5


def test_a_finer_grid_has_the_best_decay(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    took, asked = {(0.1, 1.0): 30, (0.1, 0.5): 20}, list[tuple[float, float]]()

    def race(*arguments: Any) -> Iterator[list[Trial]]:
        points = arguments[3]
        asked.extend((lr, decay) for lr, decay, _ in points)
        found = [took.get((lr, decay)) for lr, decay, _ in points]
        yield [Trial(*point, "", ((0, 0.5), (n, 0.99)) if n else ((0, 0.5),))
               for point, n in zip(points, found, strict=True)]  # fmt: skip

    monkeypatch.setattr(tuning, "race", race)
    cell = Cell("toy", Experiment(), rate=0.1, decays=(1.0, 0.5), goal=10)
    found = tuning.tune(cell, generated([5]), compiled(), seeds=1)
    assert found.winner(0.99) == (0.1, 0.5)
    coarse = [(lr, decay) for lr in (0.0464, 0.1, 0.215) for decay in (1.0, 0.5)]
    assert asked == [*coarse, (0.0681, 0.5), (0.147, 0.5)]


def test_a_rate_that_failed_before_with_another_seed_does_not_end_a_race() -> None:
    there, half = history(0.1, 0.9), history(0.1, 0.5)
    failed = Trial(0.2, 1.0, 0, "", ((0, 0.1), (1, 0.5)))
    points = [(0.2, 1.0, 1), (0.4, 1.0, 0)]
    assert list(tuning.losing(0.9, points, [])([there, half])) == [0, 1]
    assert list(tuning.losing(0.9, points, [failed])([there, half])) == []


def test_the_grid_is_widened_for_the_rate_that_does_not_fail(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    # 0.1 is the fastest with the first seed and fails with the second; below 0.0464, the grid's edge, is a faster one.
    took = {(0.1, 0): 30, (0.0464, 0): 40, (0.0464, 1): 40, (0.0215, 0): 35, (0.0215, 1): 35, (0.01, 0): 50}
    rivals = dict[float, set[float]]()

    def race(*arguments: object) -> Iterator[list[Trial]]:
        points: list[Point] = arguments[3]  # type: ignore[assignment]
        before: Sequence[Trial] = arguments[4]  # type: ignore[assignment]
        rivals.update({lr: {t.lr for t in before} for lr, *_ in points if lr not in rivals})
        found = [took.get((lr, seed)) for lr, _, seed in points]
        yield [Trial(*point, "", ((0, 0.5), (n, 0.99)) if n else ((0, 0.5),))
               for point, n in zip(points, found, strict=True)]  # fmt: skip

    monkeypatch.setattr(tuning, "race", race)
    found = tuning.tune(Cell("toy", Experiment(), rate=0.1), generated([5]), compiled(), seeds=2)
    assert (found.winner(0.99), found.rounds(0.99)) == ((0.0215, 1.0), 35)
    assert [lr for lr, _ in found.settings] == [0.01, 0.0215, 0.0464, 0.1, 0.215]
    assert rivals[0.0215] == {0.0464}  # not with 0.1, which was there first


def test_what_had_ended_before_an_interrupt_is_kept(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    curve = History(({"round": 0, "test_accuracy": 0.1}, {"round": 2, "test_accuracy": 0.9}))
    reasons = ("test accuracy reached 0.8", "interrupted after 2 rounds")
    ended = [Run("", curve, Variables({}, {}), reason) for reason in reasons]
    monkeypatch.setattr(tuning, "train", lambda *_: ended)
    monkeypatch.setattr(Compiled, "group", lambda *_: 2)
    cell, file = Cell("toy", TOY, rate=0.1, targets=(0.8,)), tmp_path / "toy.partial"
    with pytest.raises(KeyboardInterrupt):
        tuning.tune(cell, generated([20] * 6, test=200), compiled(), rates=2, seeds=2, partial=Partial(file))
    assert [point for point, _ in Partial(file).trials] == [(0.0464, 1.0, 0)]


def test_an_easier_target_is_repeated_no_further_than_that(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    # 0.1 is first at 0.99, 0.215 at 0.8.
    rounds = {0.1: {0.8: 20, 0.99: 30}, 0.215: {0.8: 10, 0.99: 50}}
    asked = []

    def race(*arguments: object) -> Iterator[list[Trial]]:
        points: list[Point] = arguments[3]  # type: ignore[assignment]
        target: float = arguments[8]  # type: ignore[assignment]
        asked.extend([(target, points)] if points else [])
        took = [{a: n for a, n in rounds.get(lr, {}).items() if a <= target} for lr, *_ in points]
        yield [Trial(*point, f"test accuracy reached {target:g}", ((0, 0.5), *((n, a) for a, n in way.items())))
               for point, way in zip(points, took, strict=True)]  # fmt: skip

    monkeypatch.setattr(tuning, "race", race)
    cell = Cell("toy", Experiment(), rate=0.1, targets=(0.8, 0.99))
    found = tuning.tune(cell, generated([5]), compiled(), seeds=2)
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
    found = tuning.tune(cell, generated([20] * 6, test=200), compiled(lanes=1, devices=1), rates=1, seeds=2)
    assert found.rounds(0.8) is not None
    for setting in found.settings:
        assert sorted(t.seed for t in found.trials if t.setting == setting) == [0, 1]


def test_near_a_low_target_is_near_it() -> None:
    """A leader at 30 % of 54 % is not near, whatever its share of errors."""
    leader, slow = (history(*([0.0] + [top] * 12)) for top in (0.3, 0.1))
    pair = [(0.1, 1.0, 0), (0.2, 1.0, 0)]
    assert list(tuning.losing(0.54, pair, [])([leader, slow])) == []
    close = history(*([0.0] + [0.5] * 12))
    assert list(tuning.losing(0.54, pair, [])([close, slow])) == [1]


def test_a_cell_begins_where_its_sibling_ended() -> None:
    cell = Cell("a", TOY, rate=0.1, targets=(0.8,))
    sibling = Cell("b", TOY.replace(fraction=0.4), rate=0.1, targets=(0.8,))
    farther = Cell("c", TOY.replace(fraction=0.1), rate=0.1, targets=(0.8,))
    stranger = Cell("d", TOY.replace(epochs=5), rate=0.1, targets=(0.8,))
    best = lambda lr: Outcome("", (Trial(lr, 1.0, 0, "", ((0, 0.1), (3, 0.8))),), {})  # noqa: E731
    known = {sibling: best(0.464), farther: best(0.0464), stranger: best(1.0)}
    assert tuning.beginning(cell, known) == 0.464
    assert tuning.beginning(cell, {stranger: best(1.0)}) == 0.1


def test_a_cell_that_was_stopped_goes_on(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cell, data, engine = Cell("toy", TOY, rate=0.1, targets=(0.8,)), generated([20] * 6, test=200), compiled()
    whole = tuning.tune(cell, data, engine, rates=3, seeds=2)
    run, calls = tuning.train, []

    def train(*arguments: object) -> object:
        calls.append(arguments[7])  # type: ignore[arg-type]
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(tuning, "train", train)
    with pytest.raises(KeyboardInterrupt):
        tuning.tune(cell, data, engine, rates=3, seeds=2, partial=Partial(tmp_path / "toy.partial"))
    again = tuning.tune(cell, data, engine, rates=3, seeds=2, partial=Partial(tmp_path / "toy.partial"))
    assert [label for [label] in calls].count(calls[0][0]) == 1  # what was done is not done again
    assert {t.point: t.ended for t in again.trials} == {t.point: t.ended for t in whole.trials}
    assert again.rounds(0.8) == pytest.approx(whole.rounds(0.8), abs=1e-3)
