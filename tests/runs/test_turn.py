"""The host between rounds: cohorts are drawn once, results come by one transfer, and turns may run ahead."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from quadratic import points, quadratic

import fedloom as fl
from fedloom.data import FederatedData
from fedloom.engines import cohorts
from fedloom.runs import checkpoint, ongoing, turn
from fedloom.runs.runner import train
from fedloom.runs.settings import Settings

Make = Callable[..., FederatedData]
TASK = fl.tasks.logistic(inputs=4, classes=3)
SIZES = [5, 12, 30, 8]
METHODS: dict[str, fl.Method] = {
    "server": fl.fedavg(fraction=0.5, server=fl.server("momentum", lr=0.5)),
    "client state": fl.scaffold(fraction=0.5),
    "own models": fl.dpa_sgd(topology="ring"),
    "clusters": fl.ifca(clusters=2, fraction=0.5),
}


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.calls += 1
        return self.function(*given, **named)


def numbers(run: fl.Run) -> list[dict[str, float]]:
    """The rows of a history without the time."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in run.history.rows]


def same(a: Any, b: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_cohorts_are_drawn_once_and_results_come_by_one_transfer(
    generated: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, transfer = Counted(cohorts.cohorts), Counted(jax.device_get)
    monkeypatch.setattr(cohorts, "cohorts", draw)
    monkeypatch.setattr(turn.jax, "device_get", transfer)
    run = fl.run(generated(SIZES), TASK, METHODS["server"], rounds=7)
    assert len(run.history) == 8
    assert (draw.calls, transfer.calls) == (1, 9)  # one for each row of the history, and one for the model in the end


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Counted]:
    """Let turns run ahead always or never; returns what counts the turns that were dispatched."""

    def choose(always: bool) -> Counted:
        dispatched = Counted(turn.next_turn)
        monkeypatch.setattr(ongoing, "next_turn", dispatched)
        monkeypatch.setattr(turn, "WASTE", math.inf if always else 0.0)
        return dispatched

    return choose


@pytest.mark.parametrize("method", METHODS)
def test_running_ahead_changes_no_number(method: str, generated: Make, ahead: Callable[..., Counted]) -> None:
    runs, dispatched = [], []
    for always in (False, True):
        dispatched.append(ahead(always))
        runs.append(fl.run(generated(SIZES), TASK, METHODS[method], rounds=9))
    assert [one.calls for one in dispatched] == [9, 9]
    assert numbers(runs[0]) == numbers(runs[1])
    same(runs[0].variables, runs[1].variables)


def test_a_turn_that_a_target_makes_useless_is_discarded(
    generated: Make, ahead: Callable[..., Counted], tmp_path: Path
) -> None:
    data, method = generated(SIZES), METHODS["client state"]
    full = fl.run(data, TASK, method, rounds=12)
    target = float(np.sort(full.history.column("test_accuracy"))[-2])
    reached, runs, dispatched = full.history.reached("test_accuracy", target), [], []
    assert reached is not None and reached > 3
    for name, always in (("never", False), ("always", True)):
        dispatched.append(ahead(always))
        runs.append(fl.run(data, TASK, method, rounds=12, target=target, keep="last", directory=tmp_path / name))
    assert [one.calls for one in dispatched] == [reached, reached + 1]
    assert numbers(runs[0]) == numbers(runs[1]) == numbers(full)[: reached + 1]
    stored = [checkpoint.read(tmp_path / name)[0] for name in ("never", "always")]
    same(*(one.arrays for one in stored if one is not None))


def test_a_run_that_diverges_ends_at_the_same_state(ahead: Callable[..., Counted]) -> None:
    ended, wild = [], fl.fedavg(fraction=1.0, lr=5.0)  # a step multiplies the distance to the optimum by -9
    for always in (False, True):
        ahead(always)
        settings = Settings(fl.runs.Stop(rounds=60), ("test",))
        ended += train(fl.engines.compiled(), points([1, 2]), quadratic(), [wild], [0], settings, [None], ["wild"])
    assert [run.status for run in ended] == ["diverged", "diverged"]
    assert len(ended[0].history) > 4
    assert ended[0].stopped == ended[1].stopped
    assert numbers(ended[0]) == numbers(ended[1])
    same(ended[0].variables, ended[1].variables)


def test_long_turns_and_large_states_do_not_run_ahead(generated: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fl.engines.compiled().program(generated(SIZES), TASK, [METHODS["server"]], [0])
    state = program.init()
    assert turn.may_run_ahead(program, state, [20.0, 0.1])
    assert not turn.may_run_ahead(program, state, [20.0])
    assert not turn.may_run_ahead(program, state, [20.0, 2.0])
    streamed = fl.engines.compiled(stream=True).program(generated(SIZES), TASK, [METHODS["server"]], [0])
    assert not turn.may_run_ahead(streamed, state, [20.0, 0.1])
    monkeypatch.setattr(turn, "LARGE", 10)
    assert not turn.may_run_ahead(program, state, [20.0, 0.1])
