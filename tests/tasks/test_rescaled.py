import jax
import numpy as np
import pytest

from fedloom.errors import ArgumentError
from fedloom.runs import Experiment
from fedloom.runs.prepare import federated
from fedloom.tasks import logistic, rescaled

KEY = jax.random.key(0)


def test_a_rescaled_task_sees_what_it_would_be_given() -> None:
    task = logistic(inputs=2, classes=3)
    variables, pixels = task.init(KEY), np.array([[0, 255], [51, 102]], np.uint8)
    batch = {"x": pixels, "y": np.array([0, 2])}
    given = {"x": (pixels / 255 - 0.5) / 0.25, "y": batch["y"]}
    other = rescaled(task, 0.5, 0.25, "odd")
    np.testing.assert_allclose(other.loss(variables, batch, KEY)[0], task.loss(variables, given, KEY)[0], rtol=1e-6)
    for name, values in task.metrics(variables, given).items():
        np.testing.assert_allclose(other.metrics(variables, batch)[name], values, rtol=1e-6)
    assert rescaled(task, 0.5, 0.25, "odd") is other  # so that nothing compiles anew


def test_mnist_has_the_mean_and_deviation_that_everybody_knows() -> None:
    e = Experiment(inputs="standard", model="logistic")
    data = federated(e)
    task = e.build_task(data)
    variables = task.init(KEY)
    rows = data.examples("train")[:100]
    batch = {name: column[rows] for name, column in data.columns.items()}
    known = rescaled(logistic(inputs=784, classes=10), 0.1307, 0.3081, "standard")
    np.testing.assert_array_equal(task.metrics(variables, batch)["loss"], known.metrics(variables, batch)["loss"])


def test_what_is_no_picture_is_left_alone() -> None:
    e = Experiment(data="shakespeare", model="lstm", inputs="standard")
    with pytest.raises(
        ArgumentError, match="inputs must be left alone with lstm on shakespeare/natural, which sees no"
    ):
        e.build_task(federated(e))
