"""What came of a run: the shared model, and everybody's own."""

import pickle
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms import Method
from fedloom.data import FederatedData
from fedloom.data.federated import Ranges
from fedloom.errors import ArgumentError, CheckpointError
from fedloom.trees import flatten

TASK = fl.tasks.two_nn(5, hidden=4, classes=2)
WORK = {"fraction": 1.0, "lr": 0.5, "batch_size": 4}


@pytest.fixture
def halves(generated: Callable[..., FederatedData]) -> FederatedData:
    """Three clients, each with a half of its examples to test models on."""
    data = generated([8, 8, 8], features=5, classes=2)
    data.central.clear()
    start = data.clients["train"].start
    half = np.full(3, 4, np.int32)
    data.clients.update({"train": Ranges(start, half), "test": Ranges(start + 4, half)})
    return data


@pytest.mark.parametrize(
    "algorithm",
    [
        fl.fedavg(**WORK),
        fl.fedper("output", **WORK),
        fl.ditto(0.1, **WORK),
        fl.personalised(**WORK),
        fl.ifca(2, **WORK),
    ],
    ids=["fedavg", "fedper", "ditto", "personalised", "ifca"],
)
def test_a_client_s_model_is_what_was_measured(halves: FederatedData, algorithm: Method, tmp_path: Path) -> None:
    run = fl.run(halves, TASK, algorithm, rounds=3, evaluate="test", directory=tmp_path)
    sums = {"accuracy": 0.0, "loss": 0.0}
    for k in range(3):
        mine = halves.examples("test", k)
        found = TASK.metrics(run.of(k), {name: column[mine] for name, column in halves.columns.items()})
        sums = {name: total + float(found[name].sum()) for name, total in sums.items()}
    own = "own_" if algorithm.is_personal else ""
    assert sums["accuracy"] / 12 == pytest.approx(run.history.last(f"{own}test_accuracy"))
    assert sums["loss"] / 12 == pytest.approx(run.history.last(f"{own}test_loss"), rel=1e-5)
    shared = "test_accuracy" in run.history.columns
    assert shared == (not algorithm.is_personal or algorithm.local.describe().get("work", "").startswith("ditto"))
    pickle.dumps(run)
    again = fl.run(halves, TASK, algorithm, rounds=3, evaluate="test", directory=tmp_path)
    for name, a in flatten(run.of(2)).items():
        np.testing.assert_array_equal(a, flatten(again.of(2))[name])
    with pytest.raises(ArgumentError, match="client must be"):
        run.of(3)
    if algorithm.is_personal and not algorithm.routing.exchanges_models:
        with pytest.raises(CheckpointError, match="and no client's own: those are where they were trained"):
            fl.load(tmp_path).of(0)
        return
    for name, a in flatten(fl.load(tmp_path).of(2)).items():
        np.testing.assert_array_equal(a, flatten(run.of(2))[name])
    with pytest.raises(ArgumentError, match="client must be"):
        fl.load(tmp_path).of(3)


def test_shared_layers_are_everybody_s(halves: FederatedData) -> None:
    run = fl.run(halves, TASK, fl.fedper("output", **WORK), rounds=2, evaluate="test")
    shared, *own = (flatten(one) for one in (run.variables, run.of(0), run.of(1)))
    for name, a in shared.items():
        same = [np.array_equal(a, one[name]) for one in own]
        assert same == [not name.startswith("params.output")] * 2, name
    assert not jax.tree.all(jax.tree.map(np.array_equal, run.of(0), run.of(1)))
