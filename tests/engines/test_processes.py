import os
import tempfile
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from line_client import LineClient, dead_in
from quadratic import points, quadratic

import fedloom as fl
from fedloom.combine import by_loss
from fedloom.data import FederatedData
from fedloom.engines.station import mean_metric
from fedloom.errors import ArgumentError, CheckpointError, CrewError

VALUES = [0.0, 1.0, 2.0, 4.0]
PLAIN = fl.fedavg(fraction=1.0, lr=0.5, batch_size=1)


def run(engine, task, algorithm=PLAIN, rounds=2):
    return fl.run(points(VALUES), task, algorithm, rounds=rounds, evaluate=["test"], engine=engine)


def test_numpy_clients_in_processes_learn_what_is_computed_by_hand() -> None:
    done = run(fl.engines.processes(2, pieces=3), fl.clients.task(LineClient))
    w = 0.0
    for _ in range(2):  # two examples each, one after another: w ← w - ½ (w - x), twice
        w = np.mean([0.25 * w + 0.75 * x for x in VALUES])
    assert float(done.variables.params["w"]) == pytest.approx(w, rel=1e-6)
    assert done.history.last("test_loss") == pytest.approx(np.mean([(w - x) ** 2 / 2 for x in VALUES]), rel=1e-6)
    assert done.history.last("steps") == 2 * 4 * 2


def test_a_process_that_dies_is_replaced_and_its_clients_run_again(tmp_path) -> None:
    task = fl.clients.task(LineClient, fatal=2.0, folder=str(tmp_path))
    hurt = run(fl.engines.processes(2), task, rounds=1)
    assert [p.name for p in tmp_path.iterdir()] == ["died-0"]
    assert float(hurt.variables.params["w"]) == np.float32(0.75 * np.mean(VALUES))  # exact in binary


def test_what_a_client_raises_is_raised_here() -> None:
    with pytest.raises(ArithmeticError, match="no thanks"):
        run(fl.engines.processes(1), fl.clients.task(LineClient, wrong="raises"))


def test_processes_that_cannot_begin_are_an_error_soon() -> None:
    with pytest.raises(CrewError, match="workers ended 4 times in a row, before one could"):
        run(fl.engines.processes(1), fl.clients.task(partial(dead_in, os.getpid()), name="dead"))


def test_a_run_that_cannot_go_on_leaves_nothing_behind(tmp_path, monkeypatch) -> None:
    fl.run(points(VALUES), quadratic(), PLAIN, rounds=1, evaluate=["test"], directory=tmp_path / "run")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(CheckpointError, match="holds another run"):
        fl.run(points(VALUES), fl.clients.task(LineClient), PLAIN, evaluate=["test"], directory=tmp_path / "run",
               engine=fl.engines.processes(1))  # fmt: skip
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def held_out(*x: float) -> FederatedData:
    """The points, and examples for validation that are assigned to no client."""
    data = points(VALUES)
    rows = np.arange(len(x)) + len(data.columns["x"])
    columns = {
        "x": np.append(data.columns["x"], np.float32(x)),
        "y": np.append(data.columns["y"], np.int32([0] * len(x))),
    }
    return replace(data, columns=columns, central={"validation": rows})


def test_clients_with_code_of_their_own_are_weighted_by_held_out_examples() -> None:
    how = fl.fedavg(fraction=1.0, lr=0.5, batch_size=1, weighting=by_loss())
    data, task = held_out(1.0, 3.0), fl.clients.task(LineClient)
    done = fl.run(data, task, how, rounds=1, evaluate=["validation"], engine=fl.engines.processes(1, pieces=2))
    models = np.array([0.75 * x for x in VALUES])  # two steps half way to x
    weights = np.exp(-np.array([((m - 1) ** 2 + (m - 3) ** 2) / 4 for m in models]))
    assert float(done.variables.params["w"]) == pytest.approx((weights * models).sum() / weights.sum(), rel=1e-6)


def test_a_metric_that_a_client_does_not_give_is_named() -> None:
    sums = {"loss": 1.0, "count": 2.0}
    assert mean_metric(sums, "loss", "client 0") == 0.5
    with pytest.raises(
        CrewError, match="evaluate of client 3 gives no accuracy, which the weighting reads; it gives loss, c"
    ):
        mean_metric(sums, "accuracy", "client 3")


def test_what_does_not_go_together() -> None:
    with pytest.raises(ArgumentError, match="engine must be processes or ray"):
        fl.run(points(VALUES), fl.clients.task(LineClient), PLAIN, rounds=1)
    with pytest.raises(ArgumentError, match="algorithm must be plain local training"):
        run(fl.engines.processes(1), fl.clients.task(LineClient), fl.fedprox(0.1, lr=0.1))
    with pytest.raises(ArgumentError, match="workers must be at least 1"):
        fl.engines.processes(0)
