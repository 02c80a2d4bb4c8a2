"""Users' models of every library, trained in bfloat16."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from user_models import federated

import fedloom as fl
from fedloom.errors import ArgumentError
from fedloom.tasks import Task, Variables

os.environ.setdefault("KERAS_BACKEND", "jax")

KEY = jax.random.key(0)
quick = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
RNG = np.random.default_rng(0)
Y = np.array([0, 1, 2, 0, 1, 2])
IMAGES = RNG.normal(size=(6, 8, 8, 2)).astype(np.float32) + Y[:, None, None, None]
TOKENS = (np.arange(6) + 2 * Y[:, None] + RNG.integers(0, 2, (6, 6))) % 11
NUMBERS = RNG.normal(size=(6, 5)).astype(np.float32) + Y[:, None]
SUMS = ("reduce_sum", "exp", "exp2", "log", "rsqrt", "sqrt", "pow", "cumsum", "reduce_window_sum")

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras' variables


def torch_cnn() -> Task:
    nn = pytest.importorskip("torch.nn")
    pytest.importorskip("torchax")
    pytest.importorskip("torch").manual_seed(0)
    layers = (
        nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, groups=2),
        nn.BatchNorm2d(8), nn.GELU(), nn.Flatten(), nn.Linear(32, 3),
    )  # fmt: skip
    return fl.tasks.from_torch(nn.Sequential(*layers), inputs=(2, 8, 8))


def torch_mlp() -> Task:
    nn = pytest.importorskip("torch.nn")
    pytest.importorskip("torchax")
    pytest.importorskip("torch").manual_seed(0)
    return fl.tasks.from_torch(nn.Sequential(nn.Linear(5, 16), nn.SiLU(), nn.LayerNorm(16), nn.Linear(16, 3)))


def torch_transformer() -> Task:
    torch, nn = pytest.importorskip("torch"), pytest.importorskip("torch.nn")
    pytest.importorskip("torchax")

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(11, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            self.out = nn.Linear(16, 3)

        def forward(self, x: Any) -> Any:
            return self.out(self.layer(self.embedding(x), src_key_padding_mask=x == 0).mean(1))

    torch.manual_seed(0)
    return fl.tasks.from_torch(Transformer())


def torch_gru() -> Task:
    torch, nn = pytest.importorskip("torch"), pytest.importorskip("torch.nn")
    pytest.importorskip("torchax")

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.gru, self.out = nn.Embedding(11, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            return self.out(self.gru(self.embedding(x))[0][:, -1])

    torch.manual_seed(0)
    return fl.tasks.from_torch(Recurrent())


def keras_cnn() -> Task:
    keras = pytest.importorskip("keras")
    if keras.backend.backend() != "jax":
        pytest.skip("keras was imported with another backend")
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((8, 8, 2)), layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU(),
        layers.LayerNormalization(), layers.GlobalAveragePooling2D(), layers.Dense(3),
    ])  # fmt: skip
    return fl.tasks.from_keras(model)


def linen_cnn() -> Task:
    linen = pytest.importorskip("flax.linen")

    class Network(linen.Module):  # type: ignore[misc, name-defined]
        @linen.compact
        def __call__(self, x: Any, train: bool) -> Any:
            x = linen.BatchNorm(use_running_average=not train)(linen.Conv(4, (3, 3))(x))
            x = linen.avg_pool(linen.gelu(x), (2, 2), (2, 2)).reshape(len(x), -1)
            return linen.Dense(3)(linen.LayerNorm()(x))

    return fl.tasks.from_flax(Network(), inputs=(8, 8, 2))


def nnx_mlp() -> Task:
    nnx = pytest.importorskip("flax.nnx")
    rngs = nnx.Rngs(0)
    return fl.tasks.from_flax(
        nnx.Sequential(nnx.Linear(5, 16, rngs=rngs), nnx.relu, nnx.RMSNorm(16, rngs=rngs), nnx.Linear(16, 3, rngs=rngs))
    )


def equinox_cnn() -> Task:
    eqx = pytest.importorskip("equinox")
    keys = jax.random.split(KEY, 2)
    return fl.tasks.from_equinox(
        eqx.nn.Sequential([
            eqx.nn.Conv2d(2, 4, 3, key=keys[0]), eqx.nn.GroupNorm(2, 4), eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.AdaptiveAvgPool2d(2), eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(16, 3, key=keys[1]),
        ]),
        inputs=(2, 8, 8),
    )  # fmt: skip


def function() -> Task:
    def init(key: Any) -> Any:
        return {"w": jax.random.normal(key, (5, 16)) / 2, "v": jnp.eye(16, 3)}

    return fl.tasks.from_function(init, lambda p, x: jax.nn.softplus(x @ p["w"]) @ p["v"])


TASKS: dict[str, tuple[Callable[[], Task], np.ndarray]] = {
    "PyTorch MLP": (torch_mlp, NUMBERS),
    "PyTorch CNN": (torch_cnn, IMAGES),
    "PyTorch transformer": (torch_transformer, TOKENS),
    "PyTorch GRU": (torch_gru, TOKENS),
    "Keras CNN": (keras_cnn, IMAGES),
    "Linen CNN": (linen_cnn, IMAGES),
    "NNX MLP": (nnx_mlp, NUMBERS),
    "Equinox CNN": (equinox_cnn, IMAGES.transpose(0, 3, 1, 2)),
    "function": (function, NUMBERS),
}


def operands(program: Any, *names: str) -> Iterator[tuple[str, str]]:
    """The type and the operation of each floating-point number that one of some operations takes."""
    for equation in program.eqns:
        if equation.primitive.name in names:
            yield from (
                (equation.primitive.name, v.aval.dtype.name)
                for v in equation.invars
                if jnp.issubdtype(v.aval.dtype, jnp.floating)
            )
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda p: hasattr(p, "jaxpr")):
            if hasattr(inner := getattr(value, "jaxpr", value), "eqns"):
                yield from operands(inner, *names)


@pytest.mark.parametrize("name", TASKS)
def test_products_are_rounded_and_sums_and_weights_are_not(name: str) -> None:
    make, x = TASKS[name]
    task = make()
    mixed, variables, batch = fl.tasks.mixed(task), task.init(KEY), {"x": x, "y": Y}

    def total(task: Task, params: Any) -> Any:
        losses, state = task.loss(Variables(params, variables.state), batch, KEY)
        return losses.mean(), state

    program = jax.make_jaxpr(lambda params: total(mixed, params))(variables.params).jaxpr
    backward = jax.make_jaxpr(jax.grad(lambda params: total(mixed, params)[0]))(variables.params).jaxpr
    if "transformer" not in name:  # attention without cuDNN adds up its gradient in float32
        assert {kind for _, kind in operands(backward, "dot_general", "conv_general_dilated")} == {"bfloat16"}
    products = set(operands(program, "dot_general", "conv_general_dilated"))
    assert {kind for _, kind in products} == {"bfloat16"}, products
    sums = set(operands(program, *SUMS))
    assert {kind for _, kind in sums} == {"float32"}, sums
    measured = jax.make_jaxpr(lambda v: mixed.metrics(v, batch))(variables).jaxpr
    assert {kind for _, kind in operands(measured, "dot_general", "conv_general_dilated")} == {"float32"}

    wanted, slope = quick(lambda p: jax.value_and_grad(lambda p: total(task, p)[0])(p))(variables.params)
    step = quick(jax.value_and_grad(lambda p: total(mixed, p), has_aux=True))
    (first, state), found = step(variables.params)
    assert {a.dtype for a in jax.tree.leaves((found, state))} == {jnp.dtype(jnp.float32)}
    np.testing.assert_allclose(first, wanted, rtol=0.02)
    a, b = (jnp.concatenate([jnp.ravel(g) for g in jax.tree.leaves(tree)]) for tree in (found, slope))
    assert float(a @ b / jnp.linalg.norm(a) / jnp.linalg.norm(b)) > 0.99

    params = variables.params
    for _ in range(10):
        (last, _), found = step(params)
        params = jax.tree.map(lambda w, g: w - 0.1 * g, params, found)
    assert float(last) < float(first)
    spoilt = jax.tree.map(lambda w: w * jnp.nan, variables.params)
    assert np.isnan(step(spoilt)[0][0])


def test_a_run_in_bfloat16_is_asked_for_by_its_name() -> None:
    task = fl.tasks.from_function(lambda _: jnp.zeros((2, 3)), lambda w, x: x @ w, precision="bfloat16")
    assert task.name == "function, bfloat16"
    x = np.eye(2, dtype=np.float32)[np.array([0, 1] * 8)]
    data = federated(x, (x[:, 0] > 0).astype(np.int32), clients=2)
    run = fl.run(data, task, fl.fedavg(lr=0.5, fraction=1.0), rounds=2, evaluate=["test"])
    assert (run.variables.params.dtype, run.history.last("test_accuracy")) == (jnp.float32, 1.0)
    with pytest.raises(ArgumentError, match="precision must be one of bfloat16, float32, but is 'float16'"):
        fl.tasks.from_function(lambda _: jnp.zeros((2, 3)), lambda w, x: x @ w, precision="float16")


def test_a_task_is_rounded_once_and_others_train_by_themselves() -> None:
    task = function()
    with pytest.raises(ArgumentError, match="task must be one in float32 that fedloom computes"):
        fl.tasks.mixed(fl.tasks.mixed(task))


def test_labels_are_not_rounded() -> None:
    """Numbers about 1,000, told to the eighth: half a unit apart in bfloat16 they would be 4 apart."""
    task = fl.tasks.from_function(
        lambda _: {"w": jnp.zeros((2, 1))}, lambda p, x: (x @ p["w"])[:, 0] + 1000, loss="squared_error"
    )
    batch = {"x": np.ones((2, 2), np.float32), "y": np.array([1000.5, 1001.5], np.float32)}
    losses, _ = fl.tasks.mixed(task).loss(task.init(KEY), batch, KEY)
    np.testing.assert_allclose(losses, [0.5**2, 1.5**2])
    centred = fl.tasks.rescaled(task, 1.0, 2.0, "centred")
    rounded, _ = fl.tasks.mixed(centred).loss(task.init(KEY), batch, KEY)
    np.testing.assert_allclose(rounded, losses)
