"""A TensorFlow client: a ``tf.Module`` with a training step of its own."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fedloom.clients.client import Answer, Broadcast, Weights
from fedloom.clients.inputs import Inputs, looked
from fedloom.errors import require
from fedloom.tasks.task import Batch
from fedloom.tasks.user_model import library

BEGUN: WeakKeyDictionary[Any, list[tuple[Any, np.ndarray]]] = WeakKeyDictionary()
"""What each module remembers beside what is exchanged, and what that is before the first step."""


class TensorflowClient:
    """Trains a ``tf.Module`` by its own ``train_step(x, y, lr)`` and judges it by its own ``test_step(x, y)``, which
    gives each metric's mean over the batch, by name.

    Arguments:
        module: the model; its floating-point variables are what is exchanged. Whole numbers, and what Keras
            optimisers among its attributes remember, begin anew in each round.
        examples: the client's, by part.
        inputs: the shape of an example that the module wants, or a function from an array of the column x to what it
            wants; by default pixels between 0 and 1.
    """

    def __init__(self, module: Any, examples: dict[str, Batch], *, inputs: Inputs = None) -> None:
        self.tensorflow = library("tensorflow", "tensorflow")
        for wanted in ("train_step", "test_step"):
            require(hasattr(module, wanted), "module", f"one with a method {wanted}", type(module).__name__)
        self.module, self.examples, self.inputs = module, examples, inputs
        if module not in BEGUN:
            BEGUN[module] = [(v, v.numpy()) for v in _memory(module)]

    def weights(self) -> Weights:
        """The module's floating-point variables."""
        return {n: v.numpy() for n, v in self._variables().items()}

    def fit(self, broadcast: Broadcast) -> Answer:
        """The module's own steps over the batches that the broadcast says."""
        self.tensorflow.random.set_seed(broadcast.seed)
        self._load(broadcast.weights)
        for variable, first in BEGUN[self.module]:
            variable.assign(first)
        x, y = self._batch("train")
        for rows in broadcast.batches(len(y)):
            self.module.train_step(x[rows], y[rows], np.float32(broadcast.lr))
        return Answer(self.weights(), len(y))

    def evaluate(self, broadcast: Broadcast, part: str) -> dict[str, float]:
        """What the module's own test step gives, as sums."""
        self._load(broadcast.weights)
        x, y = self._batch(part)
        n, found = len(y), self.module.test_step(x, y)
        return {name: float(value) * n for name, value in found.items()} | {"count": float(n)}

    def trained(self, weights: Weights) -> Any:
        """The module itself, with these weights."""
        self._load(weights)
        return self.module

    def _variables(self) -> dict[str, Any]:
        floating = [v for v in self.module.variables if v.dtype.is_floating]
        return {f"{i}.{v.name.split(':')[0]}": v for i, v in enumerate(floating)}

    def _load(self, weights: Weights) -> None:
        for n, v in self._variables().items():
            v.assign(weights[n])

    def _batch(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        examples = self.examples[part]
        return looked(examples["x"], self.inputs), np.asarray(examples["y"])


def _memory(module: Any) -> list[Any]:
    """Variables that are not exchanged: whole numbers, and those of optimisers."""
    found = [v for v in module.variables if not v.dtype.is_floating]
    for part in vars(module).values():
        if hasattr(part, "apply_gradients") and hasattr(part, "build"):
            if not part.built:
                part.build(module.trainable_variables)
            found += [getattr(v, "value", v) for v in part.variables]
    return found
