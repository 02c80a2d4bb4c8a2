"""Shared models and clients' own models, on own data and on everybody's, have names of their own in a history."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms import Method
from fedloom.data import FederatedData
from fedloom.data.federated import Ranges
from fedloom.engines.evaluate import measured_models
from fedloom.engines.store import EVERYBODYS
from fedloom.errors import ArgumentError
from fedloom.federation.course import course
from fedloom.measures import OWN, OWN_ON_ALL, SHARED, label, parse
from fedloom.runs.stopping import Stop
from fedloom.runs.tally import part_for

Make = Callable[..., FederatedData]
TASK = fl.tasks.two_nn(5, hidden=4, classes=2)
WORK: dict[str, Any] = {"lr": 0.5, "batch_size": 4}
METHODS: dict[str, tuple[Method, list[str], list[str]]] = {
    "fedavg": (fl.fedavg(fraction=1.0, **WORK), [SHARED], [SHARED]),
    "ditto": (fl.ditto(0.1, fraction=1.0, **WORK), [SHARED, OWN], [SHARED, OWN_ON_ALL]),
    "fedper": (fl.fedper("output", fraction=1.0, **WORK), [OWN], [OWN_ON_ALL]),
    "fedrep": (fl.fedrep("output", fraction=1.0, **WORK), [OWN], [OWN_ON_ALL]),
    "local": (fl.local_only(fraction=1.0, **WORK), [OWN], [OWN_ON_ALL]),
    "personalised": (fl.personalised(fraction=1.0, **WORK), [OWN], [OWN_ON_ALL]),
    "ifca": (fl.ifca(2, fraction=1.0, **WORK), [OWN], [OWN_ON_ALL]),
    "dpa-sgd": (fl.dpa_sgd("ring", period=2, **WORK), [OWN], [OWN_ON_ALL]),
}


def dealt(generated: Make) -> FederatedData:
    """Three clients, each with a half of its examples to test models on."""
    data = generated([8, 8, 8], features=5, classes=2)
    data.central.clear()
    start, half = data.clients["train"].start, np.full(3, 4, np.int32)
    data.clients.update({"train": Ranges(start, half), "test": Ranges(start + 4, half)})
    return data


def accuracy(variables: Any, data: FederatedData, rows: np.ndarray) -> float:
    found = TASK.metrics(variables, {name: column[rows] for name, column in data.columns.items()})
    return float(found["accuracy"].mean())


@pytest.mark.parametrize("name", METHODS)
def test_a_history_says_whose_model_was_measured_on_whose_examples(generated: Make, name: str) -> None:
    algorithm, on_own, on_all = METHODS[name]
    parts = {True: on_own, False: on_all}
    for data, expected in (
        (dealt(generated), parts[True]),
        (generated([8, 8, 8], features=5, classes=2), parts[False]),
    ):
        assert list(measured_models(algorithm, data, "test")) == expected
    if name not in ("ditto", "fedper"):
        return
    data = generated([8, 8, 8], features=5, classes=2)
    run = fl.run(data, TASK, algorithm, rounds=3, evaluate="test")
    rows = data.examples("test")
    own = np.mean([accuracy(run.of(k), data, rows) for k in range(3)])
    assert run.history.last("own_on_all_test_accuracy") == pytest.approx(own)
    shared = [name for name in run.history.columns if (found := parse(name)) and found.models == SHARED]
    assert shared == (["test_accuracy", "test_loss"] if name == "ditto" else [])
    if shared:
        assert run.history.last("test_accuracy") == pytest.approx(accuracy(run.variables, data, rows))
        models = [jax.tree.leaves(run.of(0).params)[0], jax.tree.leaves(run.variables.params)[0]]
        assert not np.array_equal(*models)  # or the two numbers could not differ


def test_names_of_columns_are_read_and_told() -> None:
    for models, column in ((SHARED, "test_f1_macro"), (OWN, "own_train_loss"), (OWN_ON_ALL, "own_on_all_test_loss")):
        found = parse(column)
        assert found is not None and (found.models, found.column) == (models, column)
    assert [parse(name) for name in ("round", "users_after_accuracy", "own_weight", "test")] == [None] * 4
    assert label("own_on_all_test_accuracy") == "test accuracy of own models on everybody's data"


def test_a_target_is_about_the_models_that_a_method_has(generated: Make) -> None:
    data = dealt(generated)
    told = [fl.run(data, TASK, METHODS[name][0], rounds=1, target=0.0, evaluate="test").stopped
            for name in ("fedavg", "ditto", "fedper")]  # fmt: skip
    own = "test accuracy of own models on own data reached 0"
    assert told == ["test accuracy reached 0", own, own]
    with pytest.raises(fl.errors.UnknownName, match="monitor must be one of own_test_accuracy, own_test_loss, but is"):
        fl.run(data, TASK, METHODS["fedper"][0], rounds=1, target=0.5, monitor="test_accuracy")


def test_a_server_measures_no_model_that_lacks_layers(generated: Make) -> None:
    """Over a network the server has no complete model of FedPer; participants measure their own."""
    data = generated([8, 8, 8], features=5, classes=2)
    told = {}
    for name in ("fedavg", "ditto", "fedper"):
        run = course(TASK, METHODS[name][0], data=data)
        told[name] = (sorted(run.evaluate(run.arithmetic.first)), run.prefix)
    shared = ["test_accuracy", "test_loss"]
    assert told == {"fedavg": (shared, "clients_"), "ditto": (shared, "own_clients_"), "fedper": ([], "own_clients_")}
    with pytest.raises(ArgumentError, match="or monitor own_clients_accuracy"):
        course(TASK, METHODS["fedper"][0], data=data, stop=Stop(5, target=0.9))


@pytest.mark.parametrize(("visits", "part"), [(False, "test"), (True, EVERYBODYS + "test")])
def test_ranks_measure_the_shared_model_on_everybodys_examples(generated: Make, visits: bool, part: str) -> None:
    """Where only some users are trained on in a round, their examples are not everybody's."""
    prepared: Any = SimpleNamespace(data=dealt(generated), visits=visits)
    assert part_for(prepared, "test", SHARED) == part
    assert part_for(prepared, "test", OWN) == "test"
