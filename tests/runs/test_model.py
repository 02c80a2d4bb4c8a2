from pathlib import Path

import jax
import numpy as np
from safetensors.numpy import load_file

from fedloom.runs import model
from fedloom.tasks import cnn, two_nn


def test_a_model_is_plain_safetensors_with_dotted_names(tmp_path: Path) -> None:
    variables = two_nn().init(jax.random.key(0))
    model.save(tmp_path / "m.safetensors", variables)
    arrays = load_file(tmp_path / "m.safetensors")
    assert sorted(arrays) == sorted(f"params.{layer}.{p}" for layer in ("hidden1", "hidden2", "output") for p in "wb")
    np.testing.assert_array_equal(arrays["params.output.w"], variables.params["output"]["w"])


def test_a_loaded_model_gives_the_same_predictions(tmp_path: Path) -> None:
    task = cnn()
    variables = task.init(jax.random.key(0))
    model.save(tmp_path / "m.safetensors", variables)
    batch = {"x": np.zeros((2, 28, 28), np.uint8), "y": np.array([1, 2])}
    got, wanted = (task.metrics(v, batch)["loss"] for v in (model.load(tmp_path / "m.safetensors"), variables))
    np.testing.assert_array_equal(got, wanted)
