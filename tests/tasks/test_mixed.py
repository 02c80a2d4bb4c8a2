from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.errors import UnknownName
from fedloom.runs import Experiment
from fedloom.runs.prepare import federated
from fedloom.tasks import Task, Variables, char_lstm, cifar_cnn, cnn, mixed, two_nn

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
    program = jax.make_jaxpr(lambda v: mixed(task).loss(v, batch, KEY)[0])(variables)
    assert set(operands(program.jaxpr)) == {"bfloat16"}
    assert set(operands(jax.make_jaxpr(lambda v: task.loss(v, batch, KEY)[0])(variables).jaxpr)) == {"float32"}


def operands(jaxpr: Any) -> Iterator[str]:
    """The types of what products and convolutions take, in all of a program."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("dot_general", "conv_general_dilated"):
            yield from (v.aval.dtype.name for v in equation.invars)
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda p: hasattr(p, "jaxpr")):
            if hasattr(inner := getattr(value, "jaxpr", value), "eqns"):
                yield from operands(inner)


@pytest.mark.parametrize("name", ["2nn", "lstm"])
def test_the_gradient_is_nearly_the_same(name: str) -> None:
    task, x, y = TASKS[name]
    variables, batch = task.init(KEY), {"x": x, "y": y}
    found, wanted = (gradient(t, variables, batch)[0] for t in (mixed(task), task))
    apart = jnp.sqrt(sum(jnp.sum((a - b) ** 2) for a, b in zip(*map(jax.tree.leaves, (found, wanted)), strict=True)))
    size = jnp.sqrt(sum(jnp.sum(b**2) for b in jax.tree.leaves(wanted)))
    assert 1e-5 < float(apart / size) < 0.25


def test_what_is_measured_is_measured_in_float32() -> None:
    task, x, y = TASKS["cnn"]
    variables, batch = task.init(KEY), {"x": x, "y": y}
    for name, values in task.metrics(variables, batch).items():
        np.testing.assert_array_equal(mixed(task).metrics(variables, batch)[name], values)


def test_an_experiment_asks_for_it() -> None:
    e = Experiment(precision="bfloat16", inputs="centred")
    assert e.build_task(federated(e)).name == "2nn, centred inputs, bfloat16"
    with pytest.raises(UnknownName, match="precision must be one of bfloat16, float32, but is 'float16'"):
        Experiment(precision="float16")
