"""What makes two models the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from quadratic import points, quadratic

import fedloom as fl
from fedloom.data import FederatedData, Ranges
from fedloom.errors import CheckpointError
from fedloom.runs.fingerprint import fingerprint, optimiser
from fedloom.runs.restore import difference
from fedloom.tasks import Task

COLUMNS = {"x": np.zeros((3, 5), np.float32), "y": np.zeros(3, np.int32)}


def model(
    hidden: int = 4, act: Callable[[jax.Array], jax.Array] = jax.nn.relu, scale: float = 1.0, seed: int = 0
) -> Task:
    """Two layers that are always called the same."""
    draw = np.random.default_rng(seed)
    first, second, weights = draw.normal(size=(5, hidden)), draw.normal(size=(hidden, 2)), jnp.array([1.0, scale])
    return fl.tasks.from_function(
        lambda key: {"first": jnp.float32(first), "second": jnp.float32(second)},  # noqa: ARG005
        lambda params, x: act(x @ params["first"]) @ params["second"] * weights,
        name="mine",
    )


def test_a_model_is_known_by_what_it_computes() -> None:
    same = fingerprint(model(), COLUMNS)
    assert same == fingerprint(model(), COLUMNS) == fingerprint(model(seed=1), COLUMNS)  # it may begin elsewhere
    for other in (model(hidden=3), model(act=jnp.tanh), model(scale=2.0), fl.tasks.two_nn(5, hidden=4, classes=2)):
        assert fingerprint(other, COLUMNS) != same


def test_what_another_version_traced_is_not_compared() -> None:
    here = {"task": "mine", "lr": 1, "model": {"traced": "jax 2", "sha256": "b"}}
    assert difference({**here, "model": {"traced": "jax 1", "sha256": "a"}}, here) == ""
    assert difference({"task": "mine", "lr": 1}, here) == ""  # kept by a version that did not look
    assert difference({**here, "model": {"traced": "jax 2", "sha256": "a"}}, here).startswith("of another model")
    assert difference({**here, "lr": 2}, here) == "lr = 2 there, 1 here"


@pytest.mark.parametrize("rounds", [2, 1])
def test_a_folder_is_not_gone_on_with_by_another_model_of_the_same_name(
    generated: Callable[..., FederatedData], tmp_path: object, rounds: int
) -> None:
    data, work = generated([8, 8], features=5, classes=2), fl.fedavg(fraction=1.0)
    fl.run(data, model(), work, rounds=1, evaluate="train", directory=f"{tmp_path}/run")
    for other in (model(hidden=3), model(act=jnp.tanh)):
        with pytest.raises(CheckpointError, match="of another model, which is called 'mine' too"):
            fl.run(data, other, work, rounds=rounds, evaluate="train", directory=f"{tmp_path}/run")
    went = fl.run(data, model(seed=1), work, rounds=2, evaluate="train", directory=f"{tmp_path}/run")
    alone = fl.run(data, model(), work, rounds=2, evaluate="train")
    assert went.history.last("train_loss") == alone.history.last("train_loss")


def test_gradients_count_too() -> None:
    def turned(by: float) -> Task:
        @jax.custom_vjp
        def same(x: jax.Array) -> jax.Array:
            return x

        same.defvjp(lambda x: (x, None), lambda _, d: (by * d,))
        init = lambda key: {"w": jnp.ones((5, 2))}  # noqa: E731, ARG005
        return fl.tasks.from_function(init, lambda params, x: same(x @ params["w"]))

    assert fingerprint(turned(1.0), COLUMNS) == fingerprint(turned(1.0), COLUMNS) != fingerprint(turned(-3.0), COLUMNS)


def test_another_way_of_computing_is_not_compared() -> None:
    with jax.default_matmul_precision("float32"):
        other = fingerprint(model(), COLUMNS)
    assert other["traced"] != fingerprint(model(), COLUMNS)["traced"]


def test_a_folder_is_not_gone_on_with_by_another_optimiser_of_the_same_name(tmp_path: Path) -> None:
    def go(optimizer: Any, rounds: int) -> fl.Run:
        algorithm = fl.fedavg(fraction=1.0, optimizer=optimizer)
        return fl.run(points([4.0, -1.0]), quadratic(), algorithm, rounds=rounds, directory=tmp_path, evaluate=["test"])

    go(lambda lr: optax.sgd(lr), 1)
    assert go(lambda rate: optax.sgd(rate), 2).history.last("round") == 2  # the same, written again
    with pytest.raises(CheckpointError, match="with another optimiser, which is called '<lambda>' too"):
        go(lambda lr: optax.adam(3 * lr), 3)
    assert optimiser(fl.fedprox(1.0).local) == optimiser(fl.fedavg(optimizer="adam").local) == ""


def test_the_second_run_of_a_task_traces_nothing() -> None:
    """The user's function is called while the first run is prepared, and never again."""
    calls = []

    def forward(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        calls.append(x.shape)
        return x @ params["w"]

    task = fl.tasks.from_function(lambda key: {"w": jax.random.normal(key, (4, 3))}, forward)
    x, y = np.zeros((12, 4), np.float32), np.zeros(12, np.int32)
    parts = {"train": Ranges(np.array([0, 4], np.int32), np.array([4, 4], np.int32))}
    data = FederatedData("blank", {"x": x, "y": y}, 3, np.arange(8, dtype=np.int32), parts, {"test": np.arange(8, 12)})
    for first in (True, False):
        fl.run(data, task, fl.fedavg(fraction=1.0, batch_size=2), rounds=1, evaluate="test")
        assert bool(calls) == first
        calls.clear()
