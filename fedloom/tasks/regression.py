"""Regression: a built-in model that predicts one number for an example."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fedloom.errors import number
from fedloom.tasks.logistic import logistic
from fedloom.tasks.objective import OBJECTIVES, supervised, widened
from fedloom.tasks.task import Batch, Task, Variables
from fedloom.tasks.two_nn import two_nn

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Key, PyTree


def linear(inputs: int, mean: float = 0.0, scale: float = 1.0) -> Task:
    """Return linear regression: mean + scale · (x·W + b).

    Args:
        inputs: the number of features.
        mean, scale: the mean and the deviation of the numbers to be predicted.
    """
    return _predicting("linear", logistic(inputs, 1), mean, scale)


def two_nn_regression(inputs: int, hidden: int = 200, mean: float = 0.0, scale: float = 1.0) -> Task:
    """Return a perceptron with two hidden layers of ReLU units that predicts one number.

    Args:
        inputs: the number of features.
        hidden: the number of units in each hidden layer.
        mean, scale: the mean and the deviation of the numbers to be predicted.
    """
    return _predicting("2nn", two_nn(inputs, hidden, 1), mean, scale)


def _predicting(name: str, model: Task, mean: float, scale: float) -> Task:
    """Return the task of predicting mean + scale · f(x), where f is a model with one output.

    The loss is ((prediction - y) / scale)², so that a learning rate suits numbers of any size. The metric ``error`` is
    |prediction - y|, in the unit of y.
    """
    number("scale", scale, "above 0", lambda value: value > 0)
    squared = OBJECTIVES["squared_error"]

    def loss(outputs: PyTree, batch: Batch) -> Float[Array, " batch"]:
        return squared.loss(outputs, batch) / scale**2

    def metrics(outputs: PyTree, batch: Batch) -> dict[str, Float[Array, " batch"]]:
        return {**squared.metrics(outputs, batch), "loss": loss(outputs, batch)}

    def apply(variables: Variables, x: Array, key: Key[Array, ""] | None) -> tuple[Array, PyTree]:  # noqa: ARG001
        assert model.outputs is not None
        return mean + scale * widened(model.outputs(variables, x)), variables.state

    return supervised(name, model.init, apply, replace(squared, loss=loss, metrics=metrics))
