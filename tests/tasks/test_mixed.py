from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.errors import ArgumentError, UnknownName
from fedloom.runs import Experiment
from fedloom.runs.prepare import federated
from fedloom.tasks import Task, Variables, char_lstm, cifar_cnn, cnn, mixed, two_nn
from fedloom.tasks.objective import supervised

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (8, 28, 28)).astype(np.uint8)
PHOTOS = RNG.integers(0, 256, (8, 32, 32, 3)).astype(np.uint8)
LINES = RNG.integers(0, 5, (8, 12)).astype(np.uint8)
CLASSES = RNG.integers(0, 10, 8).astype(np.uint8)
TASKS = {
    "2nn": (two_nn(), PIXELS, CLASSES),
    "cnn": (cnn(), PIXELS, CLASSES),
    "cnn-bn": (cnn(normalised=True), PIXELS, CLASSES),
    "cifar-cnn": (cifar_cnn(), PHOTOS, CLASSES),
    "lstm": (char_lstm(5, hidden=16), LINES, LINES.astype(np.int8)),
}


def gradient(task: Task, variables: Variables, batch: dict[str, np.ndarray]) -> tuple[Variables, dict]:
    def total(params: dict) -> tuple[jax.Array, dict]:
        losses, state = task.loss(Variables(params, variables.state), batch, KEY)
        return losses.mean(), state

    return jax.jit(jax.grad(total, has_aux=True))(variables.params)


@pytest.mark.parametrize("name", TASKS)
def test_products_are_in_bfloat16_and_what_comes_out_in_float32(name: str) -> None:
    task, x, y = TASKS[name]
    variables, batch = task.init(KEY), {"x": x, "y": y}
    found, state = gradient(mixed(task), variables, batch)
    assert {a.dtype for a in jax.tree.leaves((found, state))} == {jnp.dtype(jnp.float32)}
    of = lambda t: set(operands(jax.make_jaxpr(lambda v: t.loss(v, batch, KEY)[0])(variables).jaxpr))  # noqa: E731
    assert of(mixed(task)) == {"bfloat16"}
    assert of(task) == {"float32"}
    measured = jax.make_jaxpr(lambda v: mixed(task).metrics(v, batch))(variables)
    assert set(operands(measured.jaxpr)) == {"float32"}


def operands(jaxpr: Any) -> Iterator[str]:
    """The types of what products and convolutions take, in all of a program."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("dot_general", "conv_general_dilated"):
            yield from (v.aval.dtype.name for v in equation.invars)
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda p: hasattr(p, "jaxpr")):
            if hasattr(inner := getattr(value, "jaxpr", value), "eqns"):
                yield from operands(inner)


def test_long_sums_are_made_in_float32() -> None:
    """Every part of the gradient, of hundreds of lines in which one character is frequent."""
    task, rng = char_lstm(5, hidden=16), np.random.default_rng(1)
    lines = np.where(rng.random((300, 40)) < 0.5, 3, rng.integers(0, 5, (300, 40)))
    variables, batch = task.init(KEY), {"x": lines, "y": np.roll(lines, -1, axis=1)}
    found, wanted = (gradient(t, variables, batch)[0] for t in (mixed(task), task))
    apart = jax.tree.map(lambda a, b: float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b)), found, wanted)
    assert 1e-5 < min(jax.tree.leaves(apart)) <= max(jax.tree.leaves(apart)) < 0.02, apart


def test_labels_and_losses_are_not_rounded() -> None:
    """Numbers about 1,000, told to the eighth: half a unit apart in bfloat16 they would be 4 apart."""
    numbers = np.array([1000.5, 1001.5], np.float32)
    variables = Variables({"b": jnp.asarray(1000.0)}, {})
    task = supervised("one", lambda _: variables, lambda v, x, _: (0 * x[:, 0] + v.params["b"], {}), "squared_error")
    losses, _ = mixed(task).loss(variables, {"x": np.ones((2, 1), np.float32), "y": numbers}, KEY)
    np.testing.assert_allclose(losses, [0.5**2, 1.5**2])


def test_clients_with_code_of_their_own_are_refused() -> None:
    task = replace(two_nn(), client=dict)
    with pytest.raises(ArgumentError, match=r"task must be one in float32 that fedloom computes .* but is '2nn'"):
        mixed(task)


def test_an_experiment_asks_for_it() -> None:
    e = Experiment(precision="bfloat16", inputs="centred")
    assert e.build_task(federated(e)).name == "2nn, centred inputs, bfloat16"
    with pytest.raises(UnknownName, match="precision must be one of bfloat16, float32, but is 'float16'"):
        Experiment(precision="float16")
