"""Models that are functions of JAX arrays."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from user_models import close, drawn, federated, stepped

import fedloom as fl
from fedloom.errors import ArgumentError
from fedloom.tasks import Task, Variables

BATCHES = drawn((4,))


def layers(key: Any) -> list[dict[str, Any]]:  # noqa: ARG001
    w = np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)
    return [{"w": jnp.asarray(w), "b": jnp.zeros(5)}, {"w": jnp.asarray(w[:3].T), "b": jnp.zeros(3)}]


def outputs(params: Any, x: Any) -> Any:
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def moving(stateful: bool = True) -> Task:
    """A model that adds noise in training, and counts its batches."""

    def apply(params: Any, state: Any, x: Any, key: Any) -> Any:
        if key is None:
            return outputs(params, x), state
        return outputs(params, x + jax.random.normal(key, x.shape)), {"seen": state["seen"] + 1}

    return fl.tasks.from_function(lambda key: (layers(key), {"seen": jnp.float32(0)}), apply, stateful=stateful)


def test_an_epoch_is_that_of_a_plain_loop() -> None:
    @jax.jit
    def step(params: Any, batch: Any) -> Any:
        def loss(params: Any) -> Any:
            logs = jax.nn.log_softmax(outputs(params, batch["x"]))
            return -jnp.mean(logs[jnp.arange(len(logs)), batch["y"]])

        return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))

    wanted = layers(None)
    for batch in BATCHES:
        wanted = step(wanted, batch)
    found = stepped(fl.tasks.from_function(layers, outputs), BATCHES).params
    jax.tree.map(lambda a, b: close(a, b, 1e-6), found, wanted)


def test_noise_is_drawn_from_the_key_in_training_alone_and_state_moves() -> None:
    task, batch = moving(), BATCHES[0]
    begun = task.init(jax.random.key(0))
    one, same, other = (task.loss(begun, batch, jax.random.key(k)) for k in (1, 1, 2))
    np.testing.assert_array_equal(one[0], same[0])
    assert not np.allclose(one[0], other[0])
    assert one[1] == {"seen": 1}
    plain = fl.tasks.from_function(layers, outputs)
    np.testing.assert_allclose(
        task.metrics(begun, batch)["loss"], plain.metrics(plain.init(jax.random.key(0)), batch)["loss"], rtol=1e-6
    )


def test_parameters_come_back_as_they_were_begun_from_a_folder_too(tmp_path: Path) -> None:
    task, data = moving(), federated(BATCHES[0]["x"], BATCHES[0]["y"])
    assert task.give_back is not None
    run = fl.run(data, task, fl.fedavg(fraction=1, batch_size=3), rounds=2, every=2, directory=tmp_path)
    params, state = task.give_back(run.variables)
    assert state == {"seen": 4}  # two batches a round
    assert [sorted(layer) for layer in params] == [["b", "w"], ["b", "w"]]
    again, _ = task.give_back(fl.load(tmp_path).variables)
    jax.tree.map(np.testing.assert_array_equal, again, params)


def test_parameters_of_another_model() -> None:
    task = fl.tasks.from_function(layers, outputs)
    assert task.give_back is not None
    with pytest.raises(ArgumentError, match=r"variables must be with params.0.b of shape \(5,\), but is without"):
        task.give_back(Variables({"w": np.ones(3)}, {}))


def test_layers_of_ones_own_by_their_place_and_all_state() -> None:
    begun = moving().init(jax.random.key(0))
    hidden = lambda layers: set(fl.local.private(layers, fl.local.sgd()).private_leaves(begun))  # noqa: E731
    assert hidden("1") == {"params.1.w", "params.1.b"}
    assert hidden("state") == {"state.seen"}


def test_images_in_the_shape_that_is_wanted() -> None:
    task = fl.tasks.from_function(
        lambda key: {"w": jnp.ones((2, 1))},  # noqa: ARG005
        lambda p, x: (x @ p["w"]).sum((1, 2)),
        "squared_error",
        inputs=(2, 2),
    )
    assert task.outputs is not None
    found = task.outputs(task.init(jax.random.key(0)), np.full((1, 4), 255, np.uint8))
    assert found.tolist() == [4]


def test_tokens_of_any_type_are_integers() -> None:
    tokens = np.array([[3, 200], [7, 0]])
    table = jnp.arange(201.0)
    for apply in (lambda p, x: p["t"][x], lambda p, x: p["t"][x.astype(int)]):
        task = fl.tasks.from_function(lambda key: {"t": table}, apply, "squared_error")  # noqa: ARG005
        assert task.outputs is not None
        for kind in (np.uint8, np.int64):
            x = federated(tokens.astype(kind), np.zeros((2, 2), np.float32)).columns["x"][:2]
            assert task.outputs(task.init(jax.random.key(0)), x).tolist() == tokens.tolist()
