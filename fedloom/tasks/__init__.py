"""Tasks: what is learned. A model, its loss for each example, and the metrics it is judged by."""

from fedloom.tasks.char_lstm import char_lstm
from fedloom.tasks.cifar_cnn import cifar_cnn
from fedloom.tasks.classification import classification
from fedloom.tasks.cnn import cnn
from fedloom.tasks.from_equinox import from_equinox
from fedloom.tasks.from_flax import from_flax
from fedloom.tasks.from_function import from_function
from fedloom.tasks.from_keras import from_keras
from fedloom.tasks.from_torch import from_torch
from fedloom.tasks.logistic import logistic
from fedloom.tasks.metric import Metric, metric
from fedloom.tasks.mixed import mixed
from fedloom.tasks.objective import Objective, objective
from fedloom.tasks.regression import linear, two_nn_regression
from fedloom.tasks.rescaled import rescaled
from fedloom.tasks.task import Batch, Task, Variables
from fedloom.tasks.two_nn import two_nn

__all__ = [
    "Batch",
    "Metric",
    "Objective",
    "Task",
    "Variables",
    "char_lstm",
    "cifar_cnn",
    "classification",
    "cnn",
    "from_equinox",
    "from_flax",
    "from_function",
    "from_keras",
    "from_torch",
    "linear",
    "logistic",
    "metric",
    "mixed",
    "objective",
    "rescaled",
    "two_nn",
    "two_nn_regression",
]
