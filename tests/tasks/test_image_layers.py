"""The built-in networks for images give the same on kernels and by their own layers."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
import fedloom.kernels.processor as processor
from fedloom.tasks.image_layers import for_kernels
from fedloom.tasks.task import Batch, Task, Variables

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llvmlite") is None, reason="there are no kernels: llvmlite is not installed"
)

TASKS = {
    "cnn": (fl.tasks.cnn, (28, 28)),
    "cnn with batch norm": (lambda: fl.tasks.cnn(normalised=True), (28, 28)),
    "cifar": (fl.tasks.cifar_cnn, (32, 32, 3)),
}


def examples(shape: tuple[int, ...]) -> Batch:
    rng = np.random.default_rng(0)
    return {"x": rng.integers(0, 256, (6, *shape), np.uint8), "y": rng.integers(0, 10, 6).astype(np.int32)}


def gradient(task: Task, variables: Variables, batch: Batch) -> Variables:
    def loss(params: object) -> jax.Array:
        return task.loss(Variables(params, variables.state), batch, jax.random.key(1))[0].sum()

    return jax.jit(jax.value_and_grad(loss))(variables.params)


@pytest.mark.parametrize("name", TASKS)
def test_kernels_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss, its gradient and the metrics agree to rounding."""
    make, shape = TASKS[name]
    task, batch = make(), examples(shape)
    variables = task.init(jax.random.key(0))
    with_kernels = gradient(task, variables, batch), task.metrics(variables, batch)
    monkeypatch.setattr(processor, "width", lambda: 0)
    without = gradient(task, variables, batch), task.metrics(variables, batch)
    for found, wanted in zip(jax.tree.leaves(with_kernels), jax.tree.leaves(without), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * max(1.0, float(jnp.abs(wanted).max())))


def test_kernels_are_chosen_for_float32_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are kernels, the traced network has JAX's own pooling in no other type."""
    task, batch = fl.tasks.cnn(), examples((28, 28))

    def traced(kind: type) -> str:
        variables = jax.tree.map(lambda a: a.astype(kind), task.init(jax.random.key(0)))
        return str(jax.make_jaxpr(lambda v: task.loss(v, batch, jax.random.key(1))[0])(variables))

    assert "ffi_call" in traced(jnp.float32)
    assert "ffi_call" not in traced(jnp.bfloat16)
    monkeypatch.setattr(processor, "width", lambda: 0)
    assert "ffi_call" not in traced(jnp.float32)


def test_the_last_windows_reach_beyond_the_image() -> None:
    """Three pixels at every second one: of the last row and column there are two."""
    x = jnp.arange(16.0).reshape(1, 4, 4, 1)
    assert for_kernels(3, beyond=1).pool(x).ravel().tolist() == [10, 11, 14, 15]
    assert for_kernels(2).pool(x).ravel().tolist() == [5, 7, 13, 15]
