import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.tasks import Task, cnn, logistic, two_nn
from fedloom.trees import count


@pytest.mark.parametrize(("task", "parameters"), [(two_nn(), 199_210), (cnn(), 1_663_370), (logistic(), 7_850)])
def test_the_published_numbers_of_parameters(task: Task, parameters: int) -> None:
    assert count(task.init(jax.random.key(0)).params) == parameters


@pytest.mark.parametrize("task", [two_nn(), cnn(), logistic()])
def test_losses_are_per_example_and_bytes_are_pixels(task: Task) -> None:
    variables = task.init(jax.random.key(0))
    x = np.random.default_rng(0).integers(0, 256, (3, 28, 28), np.uint8)
    y = jnp.array([1, 2, 3])
    losses, state = task.loss(variables, {"x": x, "y": y}, jax.random.key(1))
    assert losses.shape == (3,)
    assert state == {}
    alone = [task.loss(variables, {"x": x[i : i + 1], "y": y[i : i + 1]}, jax.random.key(1))[0][0] for i in range(3)]
    np.testing.assert_allclose(losses, alone, rtol=2e-5)
    as_numbers, _ = task.loss(variables, {"x": x.astype(np.float32) / 255, "y": y}, jax.random.key(1))
    np.testing.assert_allclose(losses, as_numbers, rtol=1e-5)


def test_metrics_worked_out_by_hand() -> None:
    task = logistic(inputs=2, classes=2)
    variables = task.init(jax.random.key(0))
    variables.params["output"] = {"w": jnp.array([[1.0, 0.0], [0.0, 1.0]]), "b": jnp.zeros(2)}
    got = task.metrics(variables, {"x": jnp.array([[2.0, 0.0], [0.0, 1.0]]), "y": jnp.array([0, 0])})
    assert got["accuracy"].tolist() == [1, 0]
    np.testing.assert_allclose(got["loss"], [np.log(1 + np.exp(-2)), np.log(1 + np.exp(1))], rtol=1e-6)
    assert got["count"].tolist() == [1, 1]


def test_the_same_model_is_the_same_task() -> None:
    assert two_nn() is two_nn()


def test_a_plain_cnn_begins_as_the_tutorial() -> None:
    plain, ours = (cnn(plain=way).init(jax.random.key(0)).params for way in (True, False))
    assert jax.tree.map(jnp.shape, plain) == jax.tree.map(jnp.shape, ours)
    for layer in plain.values():
        assert float(jnp.abs(layer["w"]).max()) <= 0.2
        assert float(layer["w"].std()) == pytest.approx(0.088, rel=0.05)  # of 0.1, cut off at two deviations
        assert set(layer["b"].tolist()) == {float(np.float32(0.1))}
    assert cnn(plain=True).name == "cnn-plain"
