"""Metrics over all predictions of a part: the numbers of scikit-learn, whatever batches an engine computes in."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
import fedloom.engines.evaluate as evaluate
from fedloom.data import FederatedData, Ranges
from fedloom.engines import compiled
from fedloom.errors import ArgumentError, FedloomError
from fedloom.tasks import Task

pytest.importorskip("sklearn")
from sklearn.metrics import f1_score, r2_score, roc_auc_score

RNG = np.random.default_rng(3)
SIZES = [5, 9, 14, 12]  # test examples of each client
N = sum(SIZES)
X = RNG.normal(size=(2 * N, 3)).astype(np.float32)
Y = (X @ np.array([1.0, -1.0, 0.5]) + RNG.normal(size=2 * N) > 0).astype(np.int32)
ORDER = RNG.permutation(2 * N).astype(np.int32)


def dealt(owned: bool = True, targets: np.ndarray = Y) -> FederatedData:
    """Four clients with as many examples to train as to test on; or test examples that no client owns."""
    size = np.array(SIZES, np.int32)
    start = (np.cumsum(size) - size).astype(np.int32)
    parts = {"train": Ranges(start, size)} | ({"test": Ranges(N + start, size)} if owned else {})
    index, central = (ORDER, {}) if owned else (ORDER[:N], {"test": ORDER[N:]})
    return FederatedData("few", {"x": X, "y": targets}, 2, index, parts, central)


def f1(outputs: Any, batch: Any) -> float:
    return float(f1_score(batch["y"], outputs.argmax(axis=1)))


def auroc(outputs: Any, batch: Any) -> float:
    return float(roc_auc_score(batch["y"], outputs[:, 1] - outputs[:, 0]))


def classifier(**metrics: Any) -> Task:
    found = {name: fl.tasks.metric(f, better="higher", over="split") for name, f in metrics.items()}
    init = lambda key: {"w": jnp.array([[0.3, -0.2], [0.1, 0.4], [-0.5, 0.2]])}  # noqa: ARG005, E731
    return fl.tasks.from_function(init, lambda p, x: x @ p["w"], metrics=found)


def logits(variables: Any, rows: np.ndarray) -> np.ndarray:
    return X[rows] @ np.asarray(variables.params["w"])


WORK = {"fraction": 1.0, "batch_size": None, "lr": 0.3}


@pytest.mark.parametrize(("owned", "devices"), [(True, 2), (False, 1)])
def test_of_a_shared_model_they_are_scikit_learns(owned: bool, devices: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(evaluate, "CACHE", 1)  # batches of 16, so that there are several, the last one short
    data, task = dealt(owned), classifier(f1=f1, auroc=auroc)
    runs = fl.sweep(
        data, task, fl.fedavg(**WORK), lr=[0.1, 0.9], rounds=2, evaluate="test", engine=compiled(devices=devices)
    )
    for run in runs:
        rows = data.examples("test")
        found = logits(run.variables, rows)
        assert run.history.last("test_f1") == f1(found, {"y": Y[rows]})
        assert run.history.last("test_auroc") == pytest.approx(auroc(found, {"y": Y[rows]}), abs=1e-12)
    assert runs[0].history.last("test_auroc") != runs[1].history.last("test_auroc")


def test_of_numbers_r2_is_scikit_learns_and_not_a_mean_over_batches(monkeypatch: Any) -> None:
    monkeypatch.setattr(evaluate, "CACHE", 1)
    y = (X @ np.array([2.0, 1.0, -1.0]) + 1).astype(np.float32)
    r2 = fl.tasks.metric(lambda outputs, batch: r2_score(batch["y"], outputs), better="higher", over="split")
    task = fl.tasks.from_function(
        lambda key: jnp.zeros(3),  # noqa: ARG005
        lambda w, x: x @ w,
        "squared_error",
        metrics={"r2": r2},
    )
    run = fl.run(dealt(targets=y), task, fl.fedavg(**WORK), rounds=4, evaluate="test", monitor="test_r2", target=0.2)
    y, x = y[ORDER[N:]], X[ORDER[N:]]
    assert run.history.column("test_r2")[0] == r2_score(y, np.zeros(N, np.float32))
    assert run.history.last("test_r2") == pytest.approx(r2_score(y, x @ np.asarray(run.variables.params)), abs=1e-6)
    assert run.stopped == "test r2 reached 0.2"


@pytest.mark.parametrize("algorithm", [fl.ditto(**WORK), fl.local_only(**WORK), fl.ifca(2, **WORK)])
def test_of_users_each_is_over_a_clients_own_predictions(algorithm: Any) -> None:
    """Before its work in round 2, a client uses the model that it has after round 1."""
    data, task = dealt(), classifier(f1=f1)
    model = fl.run(data, task, algorithm, rounds=1, evaluate=[]).of
    users = fl.run(data, task, algorithm, rounds=2, evaluate="test", users=True).users
    assert users.last("client").tolist() == [0, 1, 2, 3]
    for k, value in enumerate(users.last("before_f1")):
        rows = data.examples("test", k)
        assert value == f1(logits(model(k), rows), {"y": Y[rows]})
    assert np.isfinite(users.last("after_f1")).all()
    assert np.isfinite(users.last("global_f1")).all()


def test_of_own_models_on_own_data_it_is_over_the_predictions_of_all_owners() -> None:
    data = dealt()
    run = fl.run(data, classifier(f1=f1), fl.local_only(**WORK), rounds=2, evaluate="test")
    rows = [data.examples("test", k) for k in range(4)]
    every = np.concatenate([logits(run.of(k), rows[k]) for k in range(4)])
    [column] = [name for name in run.history.columns if name.endswith("test_f1") and not name.startswith("mean")]
    assert run.history.last(column) == f1(every, {"y": Y[np.concatenate(rows)]})


def test_of_own_models_on_everybodys_data_it_is_the_mean_over_clients() -> None:
    data = dealt(owned=False)
    run = fl.run(data, classifier(f1=f1), fl.local_only(**WORK), rounds=2, evaluate="test")
    rows = data.examples("test")
    each = [f1(logits(run.of(k), rows), {"y": Y[rows]}) for k in range(4)]
    [column] = [name for name in run.history.columns if name.endswith("test_f1") and not name.startswith("mean")]
    assert run.history.last(column) == pytest.approx(np.mean(each), abs=1e-12)


def test_one_number_for_a_batch_is_refused_before_the_run() -> None:
    seen: list[Any] = []
    for metric in (lambda o, b: jnp.mean(o[:, 1] - b["y"]), lambda o, b: jnp.mean(o[:, :1], axis=0)):  # noqa: ARG005
        init = lambda key: {"w": jnp.zeros((3, 2))}  # noqa: ARG005, E731
        task = fl.tasks.from_function(init, lambda p, x: x @ p["w"], metrics={"f1": metric})
        with pytest.raises(ArgumentError, match=r'metrics\["f1"\] must be one value for each example.*over="split"'):
            fl.run(dealt(), task, fl.fedavg(**WORK), rounds=1, watch=seen.append)
    assert seen == []


def test_a_function_of_numpy_arrays_is_refused_as_a_metric_of_examples() -> None:
    init = lambda key: {"w": jnp.zeros((3, 2))}  # noqa: ARG005, E731
    task = fl.tasks.from_function(init, lambda p, x: x @ p["w"], metrics={"f1": f1})
    with pytest.raises(ArgumentError, match=r'metrics\["f1"\] must be made of operations of JAX.*over="split"'):
        fl.run(dealt(), task, fl.fedavg(**WORK), rounds=1)


def test_what_is_no_number_over_a_split_is_refused_at_the_first_evaluation() -> None:
    seen: list[Any] = []
    with pytest.raises(ArgumentError, match=r'metrics\["each"\] must be one number over all predictions'):
        task = classifier(each=lambda outputs, batch: outputs[:, 0])  # noqa: ARG005
        fl.run(dealt(), task, fl.fedavg(**WORK), rounds=1, evaluate="test", watch=seen.append)
    with pytest.raises(ArgumentError, match=r'metrics\["nan"\] must be a finite number'):
        task = classifier(nan=lambda outputs, batch: float("nan"))  # noqa: ARG005
        fl.run(dealt(), task, fl.fedavg(**WORK), rounds=1, evaluate="test", watch=seen.append)
    assert seen == []


def test_a_model_that_diverges_is_told_and_no_error_of_scikit_learns() -> None:
    algorithm = fl.fedavg(fraction=1.0, batch_size=None, lr=1e38)
    [run] = fl.sweep(dealt(), classifier(f1=f1), algorithm, rounds=3, evaluate="test")
    assert run.diverged


def test_clients_cannot_be_weighed_by_it() -> None:
    rule = fl.combine.excluding(metric="f1", on="test")
    with pytest.raises(FedloomError, match="the metric of a weighting must be a metric with one value for each"):
        fl.run(dealt(), classifier(f1=f1), fl.fedavg(weighting=rule), rounds=1)


def test_over_the_network_the_server_measures_it_and_no_participant_does() -> None:
    pytest.importorskip("grpc")
    from fedloom.federation.course import course
    from fedloom.runs import Stop

    data, task = dealt(owned=False), classifier(f1=f1)
    run = course(task, fl.fedavg(**WORK), data=data, stop=Stop(target=0.9, monitor="test_f1"))
    rows, first = data.examples("test"), run.arithmetic.first
    assert run.evaluate(first)["test_f1"] == f1(logits(first.variables, rows), {"y": Y[rows]})
    with pytest.raises(ArgumentError, match="monitor must be a metric with one value for each example"):
        course(task, fl.fedavg(**WORK), stop=Stop(target=0.9, monitor="clients_f1"))


def test_over_mpi_it_is_refused() -> None:
    from fedloom.runs.order import supported

    with pytest.raises(ArgumentError, match=r"metrics must be means over examples over MPI.*\['f1'\]"):
        supported(fl.fedavg(**WORK), classifier(f1=f1), "fedavg")
