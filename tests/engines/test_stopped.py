"""Clients that stop at a deadline and send what they have: by hand, and the same on every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from line_client import LineClient
from often import often
from quadratic import points, quadratic

import fedloom as fl
from fedloom.algorithms import Method
from fedloom.engines import Engine
from fedloom.engines.clock import Clock, clock
from fedloom.errors import ArgumentError
from fedloom.quantity import Trace
from fedloom.trees import member

SPEEDS = Trace(np.array([[2.0, 0.5, 40.0]]))  # seconds a step: the first has time for 4, the third for none
WORK: dict[str, Any] = {"lr": 0.1, "epochs": 6, "batch_size": 2, "fraction": 1.0}
ENGINES: dict[str, Callable[[], Engine]] = {
    "one lane": lambda: fl.engines.compiled(devices=1, lanes=1),
    "two lanes": lambda: fl.engines.compiled(devices=1, lanes=2),
    "two devices": lambda: fl.engines.compiled(devices=2),
    "reference": fl.engines.reference,
    "processes": lambda: fl.engines.processes(2),
}
METHODS: dict[str, Callable[[], Method]] = {
    "fedprox": lambda: fl.fedprox(0.1, **WORK),
    "scaffold": lambda: fl.scaffold(**WORK),
    "ditto": lambda: fl.ditto(0.1, **WORK),
    "fedrep": lambda: fl.fedrep("output", 2, **WORK),
    "whole sets": lambda: fl.fedavg(**WORK | {"batch_size": None, "epochs": [9, 2, 3]}),
}
STEPS = {"fedprox": 4 + 6, "scaffold": 4 + 6, "ditto": 2 * (2 + 6), "fedrep": 4 + 8, "whole sets": 4 + 2}


def stopping(seconds: float = 9.0, **options: Any) -> Clock:
    return clock(SPEEDS, deadline=seconds, late="stopped", **options)


def trained(method: Method, engine: Engine | None = None, by: Clock | None = None, rounds: int = 1) -> fl.Run:
    data, options = points([4.0, 1.0, 7.0]), {"engine": engine, "clock": by or stopping()}
    return fl.run(data, quadratic(), method, rounds=rounds, evaluate=(), **options)


def after(steps: int, x: float) -> float:
    """The number that a + b has moved to after steps of 0.1 · 2 towards x."""
    return x * (1 - 0.8**steps)


def test_by_hand() -> None:
    """The first client takes 4 of its 6 steps, the second all, the third does not answer."""
    run = trained(fl.fedavg(**WORK))
    assert run.history.last("steps") == 4 + 6
    assert run.history.last("clock") == 9.0
    moved = run.variables.params["body"]["w"] + run.variables.params["output"]["w"]
    np.testing.assert_allclose(moved, (after(4, 4.0) + after(6, 1.0)) / 2, rtol=1e-6)


def test_messages_take_time_too() -> None:
    """With two seconds of latency there and back, three steps are left."""
    assert trained(fl.fedavg(**WORK), by=stopping(latency=1.0)).history.last("steps") == 3 + 6


@pytest.mark.parametrize(
    ("method", "steps"),
    [("fedprox", 4 + 6), ("scaffold", 4 + 6), ("ditto", 2 * (2 + 6)), ("fedrep", 4 + 8), ("whole sets", 4 + 2)],
)
@pytest.mark.parametrize("engine", often(ENGINES, ("two lanes", "reference")))
def test_every_engine_gives_the_same(engine: str, method: str, steps: int) -> None:
    """Ditto takes two steps at once; FedRep begins with two epochs of a client's own layer."""
    if engine == "two devices" and len(jax.devices()) < 2:
        pytest.skip("there is one device")
    run = trained(METHODS[method](), ENGINES[engine](), rounds=2)
    wanted = trained(METHODS[method](), fl.engines.compiled(devices=1), rounds=2)
    assert run.history.last("steps") == wanted.history.last("steps") == 2 * steps
    assert run.history.last("clock") == wanted.history.last("clock")
    compare = lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)  # noqa: E731
    jax.tree.map(compare, run.variables, wanted.variables)


def test_a_client_knows_how_many_steps_it_takes() -> None:
    """SCAFFOLD divides by them: controls are (w - w_k) / (4 η), (w - w_k) / (6 η), and 0 for the last."""
    data, method = points([4.0, 1.0, 7.0]), fl.scaffold(**WORK)
    program = fl.engines.compiled(devices=1).program(data, quadratic(), [method], [0], clock=stopping())
    state, _ = program.advance(program.init(), 0, 1)
    clients = member(state.clients, 0)
    controls = [clients.rows["control"]["body"]["w"][clients.place[k]] for k in range(3)]
    np.testing.assert_allclose(controls, [-after(4, 4.0) / 2 / 0.4, -after(6, 1.0) / 2 / 0.6, 0.0], rtol=1e-5)


def test_with_time_enough_nobody_is_stopped() -> None:
    free, timed = trained(fl.fedavg(**WORK), by=clock(SPEEDS)), trained(fl.fedavg(**WORK), by=stopping(1000.0))
    jax.tree.map(np.testing.assert_array_equal, free.variables, timed.variables)
    assert free.history.last("steps") == timed.history.last("steps") == 18


def test_what_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"^late must be left alone without a deadline"):
        clock(1.0, late="stopped")
    with pytest.raises(ArgumentError, match=r"^late must be one of dropped, stopped, but is 'early'"):
        clock(1.0, deadline=1.0, late="early")
    native = {"engine": fl.engines.processes(1), "clock": stopping(), "rounds": 1, "evaluate": ()}
    with pytest.raises(ArgumentError, match=r"^late must be dropped, since clients with code of their own"):
        fl.run(points([1.0, 2.0]), fl.clients.task(LineClient), fl.fedavg(fraction=1.0, lr=0.1), **native)
