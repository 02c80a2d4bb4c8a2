"""Flax modules, Linen and NNX: the same numbers as a loop with optax."""

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
from fedloom.trees import flatten

flax = pytest.importorskip("flax")
linen, nnx = pytest.importorskip("flax.linen"), pytest.importorskip("flax.nnx")

BATCHES = drawn((6, 6, 1))
entropy = optax.softmax_cross_entropy_with_integer_labels
quick = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


class Linen(linen.Module):  # type: ignore[misc, name-defined]
    """A convolution, batch norm, pooling, dropout and a dense layer."""

    dropout: float = 0.0

    @linen.compact
    def __call__(self, x: Any, train: bool) -> Any:
        x = linen.Conv(4, (3, 3), strides=2, use_bias=False)(x)
        x = linen.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        x = linen.max_pool(linen.relu(x), (2, 2)).reshape(len(x), -1)
        x = linen.Dropout(self.dropout, deterministic=not train)(x)
        return linen.Dense(3, name="output")(x)


class Nnx(nnx.Module):  # type: ignore[misc, name-defined]
    """The same."""

    def __init__(self, dropout: float = 0.0, seed: int = 1) -> None:
        rngs = nnx.Rngs(seed)
        self.convolution = nnx.Conv(1, 4, (3, 3), strides=2, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(4, momentum=0.9, rngs=rngs)
        self.dropout = nnx.Dropout(dropout, rngs=rngs)
        self.output = nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = nnx.max_pool(nnx.relu(self.norm(self.convolution(x))), (2, 2))
        return self.output(self.dropout(x.reshape(len(x), -1)))


def same(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    mine, other = flatten(found), flatten(wanted)
    assert mine.keys() == other.keys()
    for name, values in other.items():
        close(mine[name], values, tolerance)


def test_an_epoch_of_linen_with_its_statistics() -> None:
    module, optimizer = Linen(), optax.sgd(LR)

    @jax.jit
    def step(params: Any, statistics: Any, memory: Any, batch: Any) -> Any:
        def loss(params: Any) -> Any:
            given = {"params": params, "batch_stats": statistics}
            outputs, changed = module.apply(given, batch["x"], train=True, mutable=["batch_stats"])
            return entropy(outputs, batch["y"]).mean(), changed["batch_stats"]

        slope, statistics = jax.grad(loss, has_aux=True)(params)
        change, memory = optimizer.update(slope, memory)
        return optax.apply_updates(params, change), statistics, memory

    task = fl.tasks.from_flax(module, inputs=(6, 6, 1))
    begun = task.init(jax.random.key(0))
    params, statistics = begun.params, begun.state["batch_stats"]
    memory = optimizer.init(params)
    for batch in BATCHES:
        params, statistics, memory = step(params, statistics, memory, batch)
    found = stepped(task, BATCHES)
    assert task.give_back is not None
    same(task.give_back(found), {"params": params, "batch_stats": statistics})
    before, after = flatten(begun), flatten(found)
    assert all(np.abs(before[name] - after[name]).max() > 1e-3 for name in before)


def test_an_epoch_of_nnx_with_its_statistics() -> None:
    module = Nnx()
    optimizer = nnx.Optimizer(module, optax.sgd(LR), wrt=nnx.Param)

    @nnx.jit
    def step(module: Any, optimizer: Any, batch: Any) -> None:
        slope = nnx.grad(lambda m: entropy(m(batch["x"]), batch["y"]).mean())(module)
        optimizer.update(module, slope)

    other = Nnx()
    task = fl.tasks.from_flax(other)
    for batch in BATCHES:
        step(module, optimizer, batch)
    assert task.give_back is not None
    assert task.give_back(stepped(task, BATCHES)) is other
    pure = lambda m: nnx.to_pure_dict(nnx.state(m, nnx.Any(nnx.Param, nnx.BatchStat)))  # noqa: E731
    same(pure(other), pure(module))
    before = flatten(pure(Nnx()))
    assert all(np.abs(before[name] - values).max() > 1e-3 for name, values in flatten(pure(other)).items())


def test_a_round_of_one_client_is_a_step_and_comes_back_from_a_folder(tmp_path: Path) -> None:
    module, batch = Nnx(), BATCHES[0]
    task = fl.tasks.from_flax(module)
    assert task.give_back is not None
    run = fl.run(
        federated(batch["x"], batch["y"]), task, fl.fedavg(fraction=1, batch_size=None, lr=LR), rounds=1,
        evaluate=["test"], directory=tmp_path,
    )  # fmt: skip
    same(run.variables, stepped(task, BATCHES[:1]), 1e-6)
    task.give_back(fl.load(tmp_path).variables)
    same(fl.tasks.from_flax(module).init(jax.random.key(0)), run.variables, 0)
    with pytest.raises(ArgumentError, match=r"with params.convolution.kernel of shape \(3, 3, 1, 4\), but is without"):
        task.give_back(Variables({}, {}))


@pytest.mark.parametrize("make", [Linen, Nnx])
def test_dropout_follows_the_key_and_is_off_where_it_is_measured(make: Any) -> None:
    batch = BATCHES[0]
    task, plain = (fl.tasks.from_flax(make(dropout=d), inputs=(6, 6, 1)) for d in (0.5, 0.0))
    begun = task.init(jax.random.key(0))

    @quick
    def every(keys: Any) -> Any:
        measured = [t.metrics(begun, batch)["loss"] for t in (task, plain)]
        return measured, [task.loss(begun, batch, key)[0] for key in keys]

    (found, wanted), (one, again, other) = every([jax.random.key(k) for k in (1, 1, 2)])
    close(found, wanted)
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)


def test_the_statistics_of_many_layers_stay_with_their_layers() -> None:
    many = nnx.Sequential(*(nnx.BatchNorm(3, momentum=0.5, rngs=nnx.Rngs(0)) for _ in range(11)))
    for i, layer in enumerate(many.layers):
        layer.mean[...] = jnp.full(3, float(i))
    task = fl.tasks.from_flax(many)
    rows = np.array([[1, 2, 3], [-1, -2, -3]], np.float32)
    state = quick(task.loss)(task.init(jax.random.key(0)), {"x": rows, "y": np.zeros(2, int)}, jax.random.key(0))[1]
    assert [float(state[f"layers.{i}.mean"][0]) for i in range(11)] == pytest.approx([i / 2 for i in range(11)])


def test_names_state_and_what_is_kept() -> None:
    begun = fl.tasks.from_flax(Nnx()).init(jax.random.key(0))
    hidden = lambda layers: set(fl.local.private(layers, fl.local.sgd()).private_leaves(begun))  # noqa: E731
    assert hidden("state") == {"state.norm.mean", "state.norm.var"}
    assert hidden("norm*") == {"params.norm.scale", "params.norm.bias", "state.norm.mean", "state.norm.var"}


def test_modules_that_cannot_be_used() -> None:
    with pytest.raises(ArgumentError, match=r"module must be a flax\.linen\.Module or flax\.nnx\.Module, but is 3"):
        fl.tasks.from_flax(3)
    with pytest.raises(ArgumentError, match="inputs must be the shape of an example"):
        fl.tasks.from_flax(Linen())
    task = fl.tasks.from_flax(Linen(), inputs=(6, 6, 1))
    assert task.give_back is not None
    with pytest.raises(ArgumentError, match=r"variables must be with .* but is without"):
        task.give_back(Variables({}, {}))
    data = federated(np.ones((4, 5), np.float32), np.zeros(4, np.int32))
    with pytest.raises(ArgumentError, match=r"a shape that examples of shape \(5,\) can take, but is \(6, 6, 1\)"):
        fl.run(data, task, fl.fedavg(fraction=1), rounds=1)


def test_linen_with_a_function_as_inputs_takes_its_shape_from_an_example() -> None:
    task = fl.tasks.from_flax(Linen(), inputs=lambda x: x.reshape(-1, 6, 6, 1), like=np.zeros(36, np.float32))
    begun = jax.eval_shape(task.init, jax.random.key(0))
    assert begun.params["output"]["kernel"].shape == (16, 3)


RNG = np.random.default_rng(0)
TOKENS, LABELS = RNG.integers(0, 201, (6, 5)), RNG.integers(0, 3, 6).astype(np.int32)


class LinenWords(linen.Module):  # type: ignore[misc, name-defined]
    """Tokens of one vocabulary in two tables of one name."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        return linen.Dense(3)(linen.Embed(201, 4)(x).mean(1))


class NnxWords(nnx.Module):  # type: ignore[misc, name-defined]
    """A parameter of its own, and an embedding that would take any number for a token."""

    def __init__(self, long: bool = False) -> None:
        rngs = nnx.Rngs(0)
        self.position = nnx.Param(jnp.ones((5, 4)))
        self.embedding, self.output, self.long = nnx.Embed(201, 4, rngs=rngs), nnx.Linear(4, 3, rngs=rngs), long

    def __call__(self, x: Any) -> Any:
        h = self.embedding(x.astype(int) if self.long else x) + self.position
        return self.output(h.mean(1))


@pytest.mark.parametrize("kind", [np.uint8, np.int64])
@pytest.mark.parametrize("long", [False, True])
def test_tokens_of_any_type_are_integers_in_nnx(kind: type, long: bool) -> None:
    module = NnxWords(long)
    task = fl.tasks.from_flax(module)
    assert task.outputs is not None
    x = federated(TOKENS.astype(kind), LABELS).columns["x"][:6]
    close(task.outputs(task.init(jax.random.key(0)), x), module(jnp.asarray(TOKENS)))


def test_linen_takes_tokens_and_the_shape_of_its_input_alone() -> None:
    module = LinenWords()
    task = fl.tasks.from_flax(module, inputs=(5,))
    begun = task.init(jax.random.key(0))
    wanted = module.apply({"params": begun.params}, jnp.asarray(TOKENS))
    for kind in (np.uint8, np.int64):
        data = federated(TOKENS.astype(kind), LABELS)
        assert task.outputs is not None
        close(task.outputs(begun, data.columns["x"][:6]), wanted)
    next_one = fl.tasks.from_flax(linen.Embed(201, 201), "next_token", inputs=(5,))
    assert next_one.init(jax.random.key(0)).params["embedding"].shape == (201, 201)


def test_layers_of_nnx_in_eval_mode_stay_so() -> None:
    rngs = nnx.Rngs(0)
    frozen = nnx.BatchNorm(5, use_running_average=True, momentum=0.9, rngs=rngs)
    norm = nnx.BatchNorm(4, momentum=0.9, rngs=rngs)
    module = nnx.Sequential(norm, nnx.Linear(4, 5, rngs=rngs), frozen, nnx.Linear(5, 3, rngs=rngs))
    own = nnx.clone(module)
    batch = drawn((4,), batches=1)[0]
    found = stepped(fl.tasks.from_flax(module), [batch])

    @nnx.value_and_grad
    def loss(model: Any) -> Any:
        return entropy(model(batch["x"]), batch["y"]).mean()

    optimizer = nnx.Optimizer(own, optax.sgd(LR), wrt=nnx.Param)
    optimizer.update(own, loss(own)[1])
    fl.tasks.from_flax(module).give_back(found)
    for part in (nnx.Param, nnx.BatchStat):
        same(nnx.to_pure_dict(nnx.state(module, part)), nnx.to_pure_dict(nnx.state(own, part)))
    assert not np.any(module.layers[2].mean[...])
    assert np.all(module.layers[0].mean[...])


def test_a_module_of_nnx_that_is_in_eval_mode_as_a_whole() -> None:
    module = Nnx()
    module.eval()
    with pytest.warns(
        FedloomWarning, match=r"all layers of Nnx with dropout .* are in eval mode, and stay in it: call"
    ):
        fl.tasks.from_flax(module)


def test_a_plain_number_that_nnx_would_lose_is_refused() -> None:
    class Calls(nnx.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.calls, self.output = 0, nnx.Linear(4, 3, rngs=nnx.Rngs(0))

        def __call__(self, x: Any) -> Any:
            self.calls += 1
            return self.output(x)

    with pytest.raises(ArgumentError, match="one that assigns to calls, a plain number, when it is called"):
        stepped(fl.tasks.from_flax(Calls()), drawn((4,), batches=1))
