import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedloom.recipes.conduct as conduct
import fedloom.runs.checkpoint as checkpoint
from fedloom.data import FederatedData
from fedloom.engines import Compiled, compiled
from fedloom.errors import CheckpointError
from fedloom.recipes.cell import Cell, Trial
from fedloom.recipes.conduct import Begin, Conduct
from fedloom.recipes.racing import LAG, PATIENCE, Course, Ended, failing, fewest, losing
from fedloom.runs import Experiment
from fedloom.runs.history import History, from_rows
from fedloom.runs.record import Record
from fedloom.runs.restore import standing

TOY = Experiment(model="logistic", fraction=0.5, target=0.8, rounds=20, evaluate="test")
POINTS = [(0.01, 1.0, 0), (0.02, 1.0, 0), (1.0, 1.0, 0)]
STOPPED = 7  # rounds


def history(*accuracies: float) -> History:
    return History(tuple({"round": i, "test_accuracy": a} for i, a in enumerate(accuracies)))


def test_a_race_ends_when_a_rate_is_there_with_all_its_seeds() -> None:
    half, most, there = history(0.1, 0.5), history(0.1, 0.6), history(0.1, 0.9)
    over = losing(0.9, [(0.1, 1.0, 0), (0.2, 1.0, 0)], [])
    assert list(over([half, most])) == []
    assert list(over([half, there])) == [0, 1]
    over = losing(0.9, [(0.1, 1.0, 0), (0.1, 1.0, 1), (0.2, 1.0, 0), (0.2, 1.0, 1)], [])
    assert list(over([half, there, there, most])) == []
    assert list(over([half, there, there, there])) == [0, 1, 2, 3]


def test_whoever_takes_half_as_many_rounds_again_as_the_leader_has_lost() -> None:
    leader, slow = (history(*([0.0] + [top] * 12)) for top in (0.85, 0.5))
    pair, alone = [(0.1, 1.0, 0), (0.2, 1.0, 0)], [(0.2, 1.0, 0)]
    before = [Trial(0.1, 1.0, 0, "", tuple((i, 0.85 if i else 0.0) for i in range(13)))]
    assert list(losing(0.9, pair, [])([leader, slow])) == [1]  # the leader had 50 % in round 0.6, now is 12
    assert list(losing(0.9, alone, before)([slow])) == [0]  # a leader of an earlier group counts too
    assert list(losing(0.9, [(0.2, 1.0, 1)], before)([slow])) == []  # but not one with another seed
    far = [Trial(0.1, 1.0, 0, "", tuple((i, 0.7 if i else 0.0) for i in range(13)))]
    assert list(losing(0.9, alone, far)([slow])) == []  # nobody is near 90 % yet
    short = history(*([0.0] + [0.5] * 4))
    assert list(losing(0.9, alone, before)([short])) == []  # too early to tell
    long = [Trial(0.1, 1.0, 0, "", tuple((i, 0.85 if i else 0.0) for i in range(100)))]
    assert list(losing(0.9, alone, long)([slow])) == []  # and so are 12 of 99 rounds
    steady = [Trial(0.1, 1.0, 0, "", tuple((i, 0.1 * min(i, 9)) for i in range(16)))]  # 50 % in round 5
    half = lambda rounds: history(*([0.0] * 4 + [0.5] * (rounds - 3)))  # noqa: E731
    assert list(losing(0.9, alone, steady)([half(7)])) == []
    assert list(losing(0.9, alone, steady)([half(8)])) == [0]  # more than 1.5 · 5


def test_whoever_takes_three_times_the_rounds_of_another_seed_has_failed() -> None:
    reached = Trial(0.1, 1.0, 0, "", tuple((i, 0.1 * i) for i in range(10)))  # 50 % in round 5, 90 % in round 9
    stuck = lambda rounds: history(*([0.0] + [0.5] * rounds))  # noqa: E731
    repeated = failing(0.9, [(0.1, 1.0, 1), (0.1, 1.0, 2)], [reached])
    assert list(repeated([stuck(15), stuck(16)])) == [1]
    assert list(failing(0.9, [(0.2, 1.0, 1)], [reached])([stuck(16)])) == []  # another rate's
    assert list(failing(0.95, [(0.1, 1.0, 1)], [reached])([stuck(16)])) == []  # which did not get there either


def test_who_is_slower_than_the_slowest_seed_of_another_is_not_waited_for() -> None:
    there = lambda lr, seed, n: Trial(lr, 1.0, seed, "", ((0, 0.5), (n, 0.99)))  # noqa: E731
    trials = [there(0.1, 0, 30), there(0.1, 1, 10), there(0.2, 0, 25), Trial(0.2, 1.0, 1, "", ((0, 0.5),))]
    assert fewest(trials, 1, 0.99) == 25
    assert fewest(trials, 2, 0.99) == 45  # 0.2 was not there with the second; and means may differ
    assert fewest(trials, 3, 0.99) is None


def test_whoever_is_given_patience_may_be_slow_at_first() -> None:
    steady = [Trial(0.1, 0.9, 0, "", tuple((i, 0.1 * min(i, 9)) for i in range(16)))]  # 50 % in round 5
    half = lambda rounds: history(*([0.0] * 4 + [0.5] * (rounds - 3)))  # noqa: E731
    over = losing(0.9, [(0.2, 0.9, 0)], steady, PATIENCE)
    assert list(over([half(12)])) == []
    assert list(over([half(13)])) == [0]  # more than 2.5 · 5


def test_rates_that_decay_and_cohorts_of_one_client_are_given_patience(
    course: Course, generated: Callable[..., FederatedData]
) -> None:
    assert course.lag([(0.1, 1.0, 0)]) == LAG
    assert course.lag([(0.1, 1.0, 0), (0.1, 0.9, 0)]) == PATIENCE
    one = replace(course, cell=replace(course.cell, experiment=TOY.replace(fraction=0.0)))
    assert one.lag([(0.1, 1.0, 0)]) == PATIENCE
    assert replace(one, data=generated([120], test=200)).lag([(0.1, 1.0, 0)]) == LAG  # it has all data


def test_a_rate_that_failed_before_with_another_seed_does_not_end_a_race() -> None:
    there, half = history(0.1, 0.9), history(0.1, 0.5)
    failed = Trial(0.2, 1.0, 0, "", ((0, 0.1), (1, 0.5)))
    points = [(0.2, 1.0, 1), (0.4, 1.0, 0)]
    assert list(losing(0.9, points, [])([there, half])) == [0, 1]
    assert list(losing(0.9, points, [failed])([there, half])) == []


def test_near_a_low_target_is_near_it() -> None:
    """A leader at 30 % of 54 % is not near, whatever its share of errors."""
    leader, slow = (history(*([0.0] + [top] * 12)) for top in (0.3, 0.1))
    pair = [(0.1, 1.0, 0), (0.2, 1.0, 0)]
    assert list(losing(0.54, pair, [])([leader, slow])) == []
    close = history(*([0.0] + [0.5] * 12))
    assert list(losing(0.54, pair, [])([close, slow])) == [1]


@pytest.fixture
def course(generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch) -> Course:
    """Three rates side by side: the largest is at 80 % in a few rounds, the smallest never."""
    monkeypatch.setattr(Compiled, "group", lambda *_: 3)
    cell = Cell("toy", TOY, rate=0.1, targets=(0.8,))
    return Course(cell, generated([20] * 6, test=200), compiled(lanes=1, devices=1))


def at_round(last: int, act: Callable[[], object], seen: list[int] | None = None) -> Begin:
    """Does something when a round has been evaluated, and takes note of all."""

    def watch(histories: Sequence[History]) -> None:
        now = int(max(h.last("round") for h in histories))
        if seen is not None:
            seen.append(now)
        if now == last:
            act()

    return lambda _: watch


def fail() -> None:
    raise RuntimeError("a power cut")


def trials(races: Iterable[Ended], into: list[Trial] | None = None) -> list[Trial]:
    found = [] if into is None else into
    for ended in races:
        found += ended.trials
    return found


@pytest.mark.parametrize(("act", "error"), [
    (lambda: signal.raise_signal(signal.SIGINT), KeyboardInterrupt), (fail, RuntimeError),
])  # fmt: skip
def test_a_race_that_was_stopped_goes_on_where_it_was(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], error: type[Exception]
) -> None:
    monkeypatch.setattr(conduct, "SAVED", 0.0)
    whole = trials(course.race(POINTS, raced=False, capped=False))
    first = min(t.history.last("round") for t in whole)
    assert first < STOPPED < min(t.history.last("round") for t in whole if t.lr < 1.0)  # one had ended, two had not
    assert len({accuracy for _, accuracy in whole[0].curve}) > 5
    before, seen = list[Trial](), list[int]()
    with pytest.raises(error):
        trials(
            replace(course, conduct=Conduct(at_round(STOPPED, act), tmp_path)).race(POINTS, raced=False, capped=False),
            before,
        )
    assert len(list(tmp_path.iterdir())) == 3 - len(before)
    left = [point for point in POINTS if point not in {t.point for t in before}]
    again = replace(course, conduct=Conduct(at_round(-1, fail, seen), tmp_path)).race(left, raced=False, capped=False)
    assert sorted(trials(again, before), key=lambda t: t.lr) == whole  # to the last bit
    assert min(seen) == STOPPED + (error is KeyboardInterrupt)
    assert not list(tmp_path.iterdir())


def test_when_the_time_is_over_nothing_new_begins(course: Course, tmp_path: Path) -> None:
    late = replace(course, conduct=Conduct(None, tmp_path, time.perf_counter()))
    with pytest.raises(TimeoutError):
        next(late.race(POINTS))
    assert not list(tmp_path.iterdir())


def test_those_that_go_on_together_are_in_the_same_round(course: Course, tmp_path: Path) -> None:
    for (lr, *_), rounds in zip(POINTS, (3, 4, 3), strict=True):
        (tmp_path / f"toy-lr={lr:g}-seed=0").mkdir()
        record = Record("toy", from_rows([{"round": 0}, {"round": rounds}]), rounds)
        stored = checkpoint.Checkpoint({"a": np.zeros(1)}, record.as_json())
        checkpoint.write(tmp_path / f"toy-lr={lr:g}-seed=0", stored)
    groups = list(replace(course, conduct=Conduct(None, tmp_path)).groups([*POINTS, (5.0, 1.0, 0)]))
    assert groups == [[POINTS[0], POINTS[2]], [POINTS[1]], [(5.0, 1.0, 0)]]


def test_a_run_under_way_that_is_damaged_is_told_of(course: Course, tmp_path: Path) -> None:
    (tmp_path / "toy-lr=0.01-seed=0").mkdir()
    for name in ("checkpoint.safetensors", "checkpoint.previous.safetensors"):
        (tmp_path / "toy-lr=0.01-seed=0" / name).write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match=r"toy-lr=0.01-seed=0 is damaged: delete it, and it is computed again"):
        next(replace(course, conduct=Conduct(None, tmp_path)).race(POINTS))


def test_seconds_are_those_of_all_that_ran(course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a group that was stopped, the part that goes on is charged with what went before."""
    monkeypatch.setattr(conduct, "SAVED", 0.0)
    act = lambda: signal.raise_signal(signal.SIGINT)  # noqa: E731
    stopped = replace(course, conduct=Conduct(at_round(STOPPED, act), tmp_path)).race(POINTS, raced=False, capped=False)
    assert next(stopped).seconds == 0
    with pytest.raises(KeyboardInterrupt):
        next(stopped)
    [was] = {standing(folder).history.last("seconds") for folder in tmp_path.iterdir()}  # type: ignore[union-attr]
    [ended] = replace(course, conduct=Conduct(None, tmp_path)).race(POINTS[:2], raced=False, capped=False)
    assert ended.seconds > was > 0


def test_seeds_side_by_side_are_not_measured_against_each_other_after_a_stop(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three seeds one is there at once: the others are not three times slower than it, stopped or not."""
    monkeypatch.setattr(conduct, "SAVED", 0.0)
    slow = replace(course, cell=replace(course.cell, experiment=TOY.replace(fraction=0.0, rounds=60)))
    points = [(0.5, 1.0, seed) for seed in (3, 4, 5)]
    whole = trials(slow.race(points, raced=False, capped=False))
    first, second, *_ = sorted(t.history.last("round") for t in whole)
    assert first < second
    act = lambda: signal.raise_signal(signal.SIGINT)  # noqa: E731
    stopped, found = Conduct(at_round(int(first), act), tmp_path), list[Trial]()
    with pytest.raises(KeyboardInterrupt):
        trials(replace(slow, conduct=stopped).race(points, raced=False, capped=False, forgets=False), found)
    again = replace(slow, conduct=Conduct(None, tmp_path)).race(points, raced=False, capped=False, forgets=False)
    assert sorted(trials(again), key=lambda t: t.seed) == whole
