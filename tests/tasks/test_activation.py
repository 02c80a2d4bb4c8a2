"""What a model does last."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.data import FederatedData
from fedloom.errors import ArgumentError
from fedloom.tasks.activation import last

X = jnp.ones((2, 3))


def test_the_last_activation_is_found() -> None:
    assert last(jax.jit(lambda x: jax.nn.softmax(x @ X.T)), X) == "softmax"
    assert last(lambda x: jnp.exp(x) / jnp.exp(x).sum(axis=1, keepdims=True), X) == "softmax"
    assert last(lambda x: jax.nn.sigmoid(x).astype(jnp.float16)[:, :, None], X) == "sigmoid"
    for other in (lambda x: x, jax.nn.log_softmax, lambda x: jax.nn.softmax(x) @ X.T, lambda x: jnp.exp(x) / 2):
        assert last(other, X) == ""


@pytest.mark.parametrize(("loss", "act"), [("cross_entropy", jax.nn.softmax), ("binary_cross_entropy", jax.nn.sigmoid)])
def test_probabilities_are_refused_where_logits_are_wanted(
    generated: Callable[..., FederatedData], loss: str, act: Callable[[jax.Array], jax.Array]
) -> None:
    data = generated([8, 8], features=5, classes=2)
    if loss == "binary_cross_entropy":
        data.columns["y"] = np.eye(2, dtype=np.float32)[data.columns["y"]]
    init = lambda key: {"w": jax.random.normal(key, (5, 2))}  # noqa: E731
    task = fl.tasks.from_function(init, lambda params, x: act(x @ params["w"]), loss)
    with pytest.raises(ArgumentError, match=rf"leaves the {act.__name__} to its loss, and gives logits"):
        fl.run(data, task, fl.fedavg(fraction=1.0), rounds=1, evaluate="train")


def test_numbers_are_no_classes(generated: Callable[..., FederatedData]) -> None:
    data = generated([8, 8], features=5, classes=2)
    data.columns["y"] = data.columns["y"].astype(np.float32)
    own = fl.tasks.from_function(lambda key: {"w": jnp.ones((5, 2))}, lambda params, x: x @ params["w"])  # noqa: ARG005
    for task in (fl.tasks.logistic(5, 2), own):
        with pytest.raises(ArgumentError, match=r"labels must be whole numbers, which class it is \(squared_error"):
            fl.run(data, task, fl.fedavg(fraction=1.0), rounds=1, evaluate="train")
