"""Runs of a model whose convolutions are kernels: the same seed gives the same numbers, bit for bit."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fedloom as fl
from fedloom.kernels.processor import reason, width

if reason():
    pytest.skip(reason(), allow_module_level=True)

PIXELS = np.random.default_rng(0).integers(0, 256, (8 * width(), 6, 6), np.uint8)
IMAGES = fl.data.from_arrays("pixels", {"x": PIXELS, "y": np.arange(8 * width()) % 3})
DATA = IMAGES.partition(fl.partition.iid(4))


def model(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """A convolution of 6 × 6 pixels, relu and a dense layer."""
    order = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(x[..., None], params["w"], (1, 1), "VALID", dimension_numbers=order)
    return jax.nn.relu(y).mean((1, 2)) @ params["v"]


def init(key: jax.Array) -> dict[str, jax.Array]:
    one, two = jax.random.split(key)
    return {"w": 0.3 * jax.random.normal(one, (3, 3, 1, 4)), "v": jax.random.normal(two, (4, 3))}


TASK = fl.tasks.from_function(init, model)
FEDAVG = fl.fedavg(fraction=0.5, lr=0.5, batch_size=width())


def weights(run: fl.Run) -> np.ndarray:
    return np.concatenate([np.ravel(a) for a in jax.tree.leaves(run.variables.params)])


def test_kernels_compute_its_steps() -> None:
    x = jnp.zeros((width(), 6, 6), jnp.uint8)
    forward = lambda p, x: TASK.outputs(fl.tasks.Variables(p, {}), x)  # type: ignore[misc]  # noqa: E731
    assert "fedloom_forward" in str(jax.make_jaxpr(forward)(init(jax.random.key(0)), x))


def test_resumed_in_a_sweep_and_on_one_device(tmp_path: Path) -> None:
    whole = fl.run(DATA, TASK, FEDAVG, rounds=4, seed=3, evaluate=["train"])
    fl.run(DATA, TASK, FEDAVG, rounds=2, seed=3, evaluate=["train"], directory=tmp_path / "a")
    resumed = fl.run(DATA, TASK, FEDAVG, rounds=4, seed=3, evaluate=["train"], directory=tmp_path / "a")
    np.testing.assert_array_equal(weights(resumed), weights(whole))
    members = fl.sweep(DATA, TASK, FEDAVG, seeds=[3, 4], rounds=4, evaluate=["train"])
    np.testing.assert_array_equal(weights(members[0]), weights(whole))
    alone = fl.run(DATA, TASK, FEDAVG, rounds=4, seed=3, evaluate=["train"], engine=fl.engines.compiled(devices=1))
    np.testing.assert_allclose(weights(alone), weights(whole), rtol=1e-5, atol=1e-6)


def test_the_numbers_of_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without kernels the run is the same to rounding."""
    ours = fl.run(DATA, TASK, FEDAVG, rounds=3, evaluate=["train"])
    monkeypatch.setattr("fedloom.tasks.forms.processor.reason", lambda: "FEDLOOM_KERNELS is 0")
    again = fl.tasks.from_function(init, model)
    theirs = fl.run(DATA, again, FEDAVG, rounds=3, evaluate=["train"])
    np.testing.assert_allclose(weights(ours), weights(theirs), rtol=1e-4, atol=1e-6)
