"""Metrics of a user's own: what they are called, which way they improve, and what shape their values have."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from user_models import federated

import fedloom as fl
from fedloom.data import FederatedData
from fedloom.errors import ArgumentError, UnknownDirection
from fedloom.tasks import Task

X = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
ALGORITHM = fl.fedavg(fraction=1.0, batch_size=None, lr=0.02)


def line() -> FederatedData:
    """Two clients who both have y = 2x, to train on and for testing."""
    return federated(X[:, None], 2 * X, clients=2, classes=1)


def slope(**metrics: Any) -> Task:
    """One weight, which begins at 0: y ≈ w·x."""
    return fl.tasks.from_function(
        lambda key: jnp.zeros(1),  # noqa: ARG005
        lambda w, x: x @ w,
        loss="squared_error",
        metrics=metrics,
    )


def mae(outputs: Any, batch: Any) -> Any:
    return jnp.abs(outputs - batch["y"])


LOWER = fl.tasks.metric(mae, better="lower")


def test_a_metric_of_which_lower_is_better_has_its_lowest_value_as_the_best(tmp_path: Path) -> None:
    run = fl.run(line(), slope(mae=LOWER), ALGORITHM, rounds=3, evaluate="test", directory=tmp_path)
    values = run.history.column("test_mae")
    assert values[0] == 5.0  # |0 - 2x| over 1, 2, 3, 4
    assert np.all(np.diff(values) < 0)
    for history in (run.history, fl.load(tmp_path).history):
        assert history.best("test_mae") == values[-1]
        assert history.reached("test_mae", values[2]) == 2


def test_a_target_on_it_is_reached_from_above() -> None:
    run = fl.run(line(), slope(mae=LOWER), ALGORITHM, rounds=9, evaluate="test", monitor="test_mae", target=2.0)
    assert (run.history.last("round") > 1, run.history.last("test_mae") <= 2) == (True, True)
    assert run.stopped == "test mae reached 2"


def test_patience_does_not_end_a_run_that_improves() -> None:
    run = fl.run(line(), slope(mae=LOWER), ALGORITHM, rounds=5, evaluate="test", monitor="test_mae", patience=2)
    assert run.stopped == "did 5 rounds"


@pytest.mark.parametrize("watched", [{"target": 1.0}, {"patience": 2}], ids=str)
def test_without_a_direction_a_target_is_refused_before_the_run(watched: dict[str, Any]) -> None:
    with pytest.raises(UnknownDirection, match=r'fl\.tasks\.metric\(function, better="lower"\)'):
        fl.run(line(), slope(mae=mae), ALGORITHM, rounds=2, evaluate="test", monitor="test_mae", **watched)


def test_without_a_direction_it_is_recorded_and_has_no_best(tmp_path: Path) -> None:
    run = fl.run(line(), slope(mae=mae), ALGORITHM, rounds=1, evaluate="test", users=True, directory=tmp_path)
    assert run.history.column("test_mae")[0] == 5.0
    assert "users_global_mae" in run.history.columns
    assert "users_global_mae_worst" not in run.history.columns  # nobody knows which tenth is the worst
    assert "users_global_error_worst" in run.history.columns
    for history in (run.history, fl.load(tmp_path).history):
        with pytest.raises(UnknownDirection, match="higher or a lower 'test_mae' is better"):
            history.best("test_mae")
    [axes] = run.plot("mae").axes  # as measured: there is no best so far to draw
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["test"]


def test_the_worst_users_are_those_with_the_highest_error() -> None:
    data = federated(X[:, None], 2 * X, clients=4, classes=1)
    run = fl.run(data, slope(mae=LOWER), ALGORITHM, rounds=1, evaluate="test", users=True)
    [after] = run.users.column("global_mae")
    assert np.max(after) > np.min(after)
    assert run.history.last("users_global_mae_worst") == np.max(after)


def test_a_metric_keeps_its_direction_in_a_sweep_and_in_exclusion() -> None:
    far = np.array([1.0, 1.0, 1.0, 1.0, 9.0, 9.0], np.float32)  # the third client's data fits another slope
    data = federated(np.ones((6, 1), np.float32), far, clients=3, classes=1)
    rule = fl.combine.excluding(z=1.0, among=fl.combine.uniform, metric="mae", on="training", moment="before")
    left_out = fl.fedavg(fraction=1.0, batch_size=None, lr=0.5, weighting=rule)
    [run] = fl.sweep(data, slope(mae=LOWER), left_out, seeds=1, rounds=1)
    np.testing.assert_allclose(np.asarray(run.variables.params), [1.0])  # w = 0 + 0.5 · 2 · (1 - 0), without the third
    with pytest.raises(UnknownDirection, match="'train_mae'"):
        fl.run(data, slope(mae=mae), left_out, rounds=1)


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("count", mae, "metrics must be named otherwise"),
        ("mae_worst", mae, "metrics must be named otherwise"),
        ("a b", mae, "metrics must be named by letters, digits and _"),
        ("error", fl.tasks.metric(mae, better="higher"), 'better must be "lower" for `error`'),
        ("mae", 3, r'metrics\["mae"\] must be a function'),
    ],
)
def test_what_cannot_be_a_metric_is_refused(name: str, function: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        slope(**{name: function})
    with pytest.raises(ArgumentError, match='better must be "higher" or "lower"'):
        fl.tasks.metric(mae, better="up")  # type: ignore[arg-type]


def test_the_name_of_another_metric_is_refused() -> None:
    with pytest.raises(ArgumentError, match="metrics must be named otherwise than what the loss measures already"):
        fl.run(line(), slope(error=mae), ALGORITHM, rounds=1)
