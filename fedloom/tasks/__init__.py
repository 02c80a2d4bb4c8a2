"""Tasks: what is learned. A model, its loss for each example, and the metrics it is judged by."""

from fedloom.tasks.char_lstm import char_lstm
from fedloom.tasks.cifar_cnn import cifar_cnn
from fedloom.tasks.classification import classification
from fedloom.tasks.cnn import cnn
from fedloom.tasks.logistic import logistic
from fedloom.tasks.rescaled import rescaled
from fedloom.tasks.task import Batch, Task, Variables
from fedloom.tasks.two_nn import two_nn

__all__ = [
    "Batch",
    "Task",
    "Variables",
    "char_lstm",
    "cifar_cnn",
    "classification",
    "cnn",
    "logistic",
    "rescaled",
    "two_nn",
]
