"""What a model does last."""

import os
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.data import FederatedData
from fedloom.errors import ArgumentError
from fedloom.runs.checks import check
from fedloom.tasks.activation import last

X = jnp.ones((2, 3))


def exp_over_sum(x: jax.Array) -> jax.Array:
    return jnp.exp(x) / jnp.exp(x).sum(axis=1, keepdims=True)


SQUASHING: dict[str, list[Callable[[jax.Array], jax.Array]]] = {
    "softmax": [
        jax.nn.softmax,
        exp_over_sum,
        lambda x: jnp.exp(x) * (1 / jnp.exp(x).sum(axis=1, keepdims=True)),
        lambda x: jnp.exp(x - jax.nn.logsumexp(x, axis=1, keepdims=True)),
        lambda x: jnp.clip(jax.nn.softmax(x), 1e-7, 1 - 1e-7),
    ],
    "log_softmax": [
        jax.nn.log_softmax,
        lambda x: x - jax.nn.logsumexp(x, axis=1, keepdims=True),
        lambda x: jnp.log(jax.nn.softmax(x) + 1e-7),
    ],
    "sigmoid": [jax.nn.sigmoid, lambda x: 1 / (1 + jnp.exp(-x)), lambda x: jnp.maximum(jax.nn.sigmoid(x), 1e-7)],
    "log_sigmoid": [jax.nn.log_sigmoid, lambda x: jnp.log(jax.nn.sigmoid(x)), lambda x: -jax.nn.softplus(-x)],
    "hard_sigmoid": [jax.nn.hard_sigmoid],
    "softsign": [jax.nn.soft_sign],
    "tanh": [jnp.tanh],
}
EACH = [(name, i) for name, spellings in SQUASHING.items() for i in range(len(spellings))]


@pytest.mark.parametrize(("name", "spelling"), EACH)
def test_the_last_activation_is_found_however_it_is_written(name: str, spelling: int) -> None:
    act = SQUASHING[name][spelling]
    assert last(lambda x: act(x @ X.T), X) == name
    assert last(jax.jit(lambda x: act(x).astype(jnp.float16)[:, :, None]), X) == name
    assert last(lambda x: act(x) @ X.T, X) == ""


def test_logits_are_no_activation() -> None:
    for other in (
        lambda x: x, lambda x: jnp.exp(x) / 2, jax.nn.relu, jax.nn.relu6, jax.nn.gelu, jax.nn.silu, jax.nn.softplus,
        jax.nn.hard_swish, lambda x: jnp.clip(x, -30, 30), lambda x: 30 * jnp.tanh(x / 30),
        lambda x: (x - x.mean()) / x.std(), lambda x: x * jax.nn.sigmoid(x), lambda x: 1 / x,
    ):  # fmt: skip
        assert last(other, X) == ""


def task_of(loss: str, act: Callable[[jax.Array], jax.Array]) -> fl.tasks.Task:
    init = lambda key: {"w": jax.random.normal(key, (5, 2))}  # noqa: E731
    return fl.tasks.from_function(init, lambda params, x: act(x @ params["w"]), loss)


@pytest.mark.parametrize("name", SQUASHING)
@pytest.mark.parametrize(("loss", "own"), [("cross_entropy", "softmax"), ("binary_cross_entropy", "sigmoid")])
def test_probabilities_are_refused_where_logits_are_wanted(
    generated: Callable[..., FederatedData], loss: str, own: str, name: str
) -> None:
    data = generated([8, 8], features=5, classes=2)
    if loss == "binary_cross_entropy":
        data.columns["y"] = np.eye(2, dtype=np.float32)[data.columns["y"]]
    with pytest.raises(ArgumentError, match=rf"leaves the {own} to its loss, and gives logits.* ends in a {name}'"):
        check(fl.fedavg(fraction=1.0), task_of(loss, SQUASHING[name][0]), data)


def test_numbers_may_be_squashed(generated: Callable[..., FederatedData]) -> None:
    data = generated([8, 8], features=5, classes=2)
    data.columns["y"] = np.eye(2, dtype=np.float32)[data.columns["y"]]
    task = task_of("squared_error", jax.nn.sigmoid)
    check(fl.fedavg(fraction=1.0), task, data)


def test_activations_of_pytorch_are_found() -> None:
    nn = pytest.importorskip("torch").nn
    pytest.importorskip("torchax")
    acts = nn.Softmax(1), nn.LogSoftmax(1), nn.Sigmoid(), nn.LogSigmoid(), nn.Hardsigmoid(), nn.Softsign(), nn.Tanh()
    for name, act in zip(SQUASHING, acts, strict=True):
        task = fl.tasks.from_torch(nn.Sequential(nn.Linear(3, 3), act))
        assert task.outputs is not None
        assert last(task.outputs, task.init(jax.random.key(0)), X) == name


def test_activations_of_keras_are_found() -> None:
    os.environ.setdefault("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras")
    if keras.backend.backend() != "jax":
        pytest.skip("keras was imported with another backend")
    for name in SQUASHING:
        task = fl.tasks.from_keras(keras.Sequential([keras.Input((3,)), keras.layers.Dense(3, activation=name)]))
        assert task.outputs is not None
        assert last(task.outputs, task.init(jax.random.key(0)), X) == name


def test_numbers_are_no_classes(generated: Callable[..., FederatedData]) -> None:
    data = generated([8, 8], features=5, classes=2)
    data.columns["y"] = data.columns["y"].astype(np.float32)
    own = fl.tasks.from_function(lambda key: {"w": jnp.ones((5, 2))}, lambda params, x: x @ params["w"])  # noqa: ARG005
    for task in (fl.tasks.logistic(5, 2), own):
        with pytest.raises(ArgumentError, match=r"labels must be whole numbers, which class it is \(squared_error"):
            fl.run(data, task, fl.fedavg(fraction=1.0), rounds=1, evaluate="train")
