"""Equinox modules: the same numbers as a loop with optax."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from user_models import LR, close, drawn, federated, stepped

import fedloom as fl
from fedloom.errors import ArgumentError, FedloomWarning
from fedloom.tasks import Variables

eqx = pytest.importorskip("equinox")

BATCHES = drawn((1, 6, 6))
KEY = jax.random.key(1)
entropy = optax.softmax_cross_entropy_with_integer_labels
quick = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


class Network(eqx.Module):  # type: ignore[misc, name-defined]
    """A convolution, batch norm, pooling and a dense layer, of one example and a state."""

    convolution: Any
    norm: Any
    output: Any
    pool: Any

    def __init__(self) -> None:
        self.convolution = eqx.nn.Conv2d(1, 4, 3, stride=2, padding=1, use_bias=False, key=KEY)
        self.norm = eqx.nn.BatchNorm(4, "batch", momentum=0.9, mode="batch")
        self.output = eqx.nn.Linear(16, 3, key=KEY)
        self.pool = eqx.nn.MaxPool2d(2, 1)

    def __call__(self, x: Any, state: Any) -> Any:
        x, state = self.norm(self.convolution(x), state)
        return self.output(self.pool(jax.nn.relu(x)).ravel()), state


def test_an_epoch_with_its_statistics() -> None:
    module, state = eqx.nn.make_with_state(Network)()
    task, optimizer = fl.tasks.from_equinox(module, state=state), optax.sgd(LR)

    @eqx.filter_jit
    def step(module: Any, state: Any, memory: Any, batch: Any) -> Any:
        @partial(eqx.filter_grad, has_aux=True)
        def slope(module: Any, state: Any) -> Any:
            outputs, state = jax.vmap(module, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(
                batch["x"], state
            )
            return entropy(outputs, batch["y"]).mean(), state

        found, state = slope(module, state)
        change, memory = optimizer.update(found, memory)
        return eqx.apply_updates(module, change), state, memory

    wanted, after, memory = module, state, optimizer.init(eqx.filter(module, eqx.is_inexact_array))
    for batch in BATCHES:
        wanted, after, memory = step(wanted, after, memory, batch)
    assert task.give_back is not None
    found, statistics = task.give_back(stepped(task, BATCHES))
    arrays = lambda tree: jax.tree.leaves(eqx.filter(tree, eqx.is_array))  # noqa: E731
    for a, b in zip(arrays((found, statistics)), arrays((wanted, after)), strict=True):
        assert a.dtype == b.dtype
        close(a, b)
    before = arrays((module, state))
    assert sum(bool(np.any(np.abs(np.float32(a) - np.float32(b)) > 1e-3)) for a, b in zip(
        before, arrays((found, statistics)), strict=True)) == len(before)  # fmt: skip


def test_a_round_of_one_client_is_a_step_and_comes_back_from_a_folder(tmp_path: Path) -> None:
    module, batch = eqx.nn.MLP(4, 3, 5, 1, key=KEY), drawn((4,), batches=1)[0]
    task = fl.tasks.from_equinox(module)
    assert task.give_back is not None
    run = fl.run(
        federated(batch["x"], batch["y"]), task, fl.fedavg(fraction=1, batch_size=None, lr=LR), rounds=1,
        evaluate=["test"], directory=tmp_path / "run",
    )  # fmt: skip
    slope = eqx.filter_jit(eqx.filter_grad(lambda m: entropy(jax.vmap(m)(batch["x"]), batch["y"]).mean()))(module)
    wanted = eqx.apply_updates(module, jax.tree.map(lambda g: -LR * g, slope))
    found = task.give_back(fl.load(tmp_path / "run").variables)
    for a, b in zip(*(jax.tree.leaves(eqx.filter(m, eqx.is_array)) for m in (found, wanted)), strict=True):
        close(a, b)
    eqx.tree_serialise_leaves(tmp_path / "module.eqx", found)
    again = fl.tasks.from_equinox(eqx.tree_deserialise_leaves(tmp_path / "module.eqx", module))
    jax.tree.map(np.testing.assert_array_equal, again.init(KEY), jax.tree.map(np.asarray, run.variables))


class Dropping(eqx.Module):  # type: ignore[misc, name-defined]
    dropout: Any
    output: Any

    def __call__(self, x: Any, key: Any) -> Any:
        return self.output(self.dropout(x, key=key))


def test_dropout_follows_the_key_of_each_example_and_is_off_where_it_is_measured() -> None:
    module = Dropping(eqx.nn.Dropout(0.5), eqx.nn.Linear(4, 3, key=KEY))
    task, batch = fl.tasks.from_equinox(module), {"x": np.ones((6, 4), np.float32), "y": np.zeros(6, np.int32)}
    begun = task.init(KEY)
    one, again, other = (quick(task.loss)(begun, batch, jax.random.key(k))[0] for k in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)
    assert len(set(one.tolist())) > 1  # the same example, dropped in different places
    wanted = entropy(module.output.weight.sum(1) + module.output.bias, jnp.int32(0))
    close(task.metrics(begun, batch)["loss"], np.full(6, wanted))


def test_names_and_what_is_kept() -> None:
    module, state = eqx.nn.make_with_state(Network)()
    begun = fl.tasks.from_equinox(module, state=state).init(KEY)
    assert set(begun.params) == {"convolution.weight", "norm.weight", "norm.bias", "output.weight", "output.bias"}
    hidden = set(fl.local.private("state", fl.local.sgd()).private_leaves(begun))
    assert hidden == {f"state.{name}" for name in begun.state}
    assert hidden


def test_modules_that_cannot_be_used() -> None:
    with pytest.raises(ArgumentError, match=r"module must be an equinox\.Module to be called, but is 3"):
        fl.tasks.from_equinox(3)
    task = fl.tasks.from_equinox(eqx.nn.MLP(4, 3, 5, 1, key=KEY), inputs=(2, 2))
    assert task.give_back is not None
    with pytest.raises(ArgumentError, match=r"with params.layers.0.bias of shape \(5,\), but is without"):
        task.give_back(Variables({}, {}))
    data = federated(np.ones((4, 5), np.float32), np.zeros(4, np.int32))
    with pytest.raises(ArgumentError, match=r"a shape that examples of shape \(5,\) can take, but is \(2, 2\)"):
        fl.run(data, task, fl.fedavg(fraction=1), rounds=1)


class Words(eqx.Module):  # type: ignore[misc, name-defined]
    """An embedding behind a parameter, of one example; it may make its tokens whole itself."""

    position: Any
    embedding: Any
    output: Any
    long: bool

    def __call__(self, x: Any) -> Any:
        return self.output((jax.vmap(self.embedding)(x.astype(int) if self.long else x) + self.position).mean(0))


@pytest.mark.parametrize("long", [False, True])
def test_tokens_of_any_type_are_integers(long: bool) -> None:
    rng = np.random.default_rng(0)
    tokens, y = rng.integers(0, 201, (6, 5)), rng.integers(0, 3, 6).astype(np.int32)
    module = Words(jnp.ones((5, 4)), eqx.nn.Embedding(201, 4, key=KEY), eqx.nn.Linear(4, 3, key=KEY), long)
    task = fl.tasks.from_equinox(module)
    assert task.outputs is not None
    for kind in (np.uint8, np.int64):
        x = federated(tokens.astype(kind), y).columns["x"][:6]
        close(task.outputs(task.init(KEY), x), jax.vmap(module)(jnp.asarray(tokens)))


def test_layers_in_inference_mode_stay_so() -> None:
    class Two(eqx.Module):  # type: ignore[misc, name-defined]
        frozen: Any
        free: Any

        def __call__(self, x: Any, *, key: Any) -> Any:
            return self.frozen(x, key=key), self.free(x, key=key)

    module = Two(eqx.nn.Dropout(0.5, inference=True), eqx.nn.Dropout(0.5))
    layers = eqx.nn.Sequential([eqx.nn.Linear(4, 4, use_bias=False, key=KEY), eqx.nn.Lambda(lambda x: 0 * x + 1)])

    class Whole(eqx.Module):  # type: ignore[misc, name-defined]
        layers: Any
        two: Any

        def __call__(self, x: Any, *, key: Any) -> Any:
            return self.two(self.layers(x), key=key)

    def both(outputs: Any, batch: Any) -> Any:  # noqa: ARG001
        return jnp.abs(outputs[0] - 1).sum(1) + 100 * jnp.abs(outputs[1] - 1).sum(1)

    task = fl.tasks.from_equinox(Whole(layers, module), both)
    batch = {"x": np.ones((6, 4), np.float32), "y": np.zeros(6, np.int32)}
    losses, _ = task.loss(task.init(KEY), batch, KEY)
    assert np.asarray(losses).tolist() == [400.0] * 6  # every number of the free one is 0 or 2
    with pytest.warns(FedloomWarning, match="all layers of Two with dropout .* are in inference mode, and stay in it"):
        fl.tasks.from_equinox(eqx.tree_at(lambda m: m.free, module, eqx.nn.Dropout(0.5, inference=True)))
