"""A TensorFlow client: a ``tf.Module`` with a training step of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedloom.clients.client import Answer, Broadcast, Weights
from fedloom.clients.torch_client import as_float
from fedloom.errors import require
from fedloom.tasks.task import Batch
from fedloom.tasks.user_model import library


class TensorflowClient:
    """Trains a ``tf.Module`` by its own ``train_step(x, y, lr)`` and judges it by its own ``test_step(x, y)``, which
    gives each metric's mean over the batch, by name.

    Arguments:
        module: the model; its variables are what is exchanged.
        examples: the client's, by part.
        inputs: from an array of the column x to what the module wants; by default pixels between 0 and 1.
    """

    def __init__(
        self, module: Any, examples: dict[str, Batch], *, inputs: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> None:
        library("tensorflow", "tensorflow")
        for wanted in ("train_step", "test_step"):
            require(hasattr(module, wanted), "module", f"one with a method {wanted}", type(module).__name__)
        self.module, self.examples, self.inputs = module, examples, inputs or as_float

    def weights(self) -> Weights:
        """The module's floating-point variables."""
        return {n: v.numpy() for n, v in self._variables().items()}

    def fit(self, broadcast: Broadcast) -> Answer:
        """The module's own steps over the batches that the broadcast says."""
        tensorflow = library("tensorflow", "tensorflow")
        tensorflow.random.set_seed(broadcast.seed)
        self._load(broadcast.weights)
        mine = self.examples["train"]
        x, y = self.inputs(mine["x"]), np.asarray(mine["y"])
        for rows in broadcast.batches(len(y)):
            self.module.train_step(x[rows], y[rows], np.float32(broadcast.lr))
        return Answer(self.weights(), len(y))

    def evaluate(self, broadcast: Broadcast, part: str) -> dict[str, float]:
        """What the module's own test step gives, as sums."""
        self._load(broadcast.weights)
        mine = self.examples[part]
        n, found = len(mine["y"]), self.module.test_step(self.inputs(mine["x"]), np.asarray(mine["y"]))
        return {name: float(value) * n for name, value in found.items()} | {"count": float(n)}

    def _variables(self) -> dict[str, Any]:
        floating = [v for v in self.module.variables if v.dtype.is_floating]
        return {f"{i}.{v.name.split(':')[0]}": v for i, v in enumerate(floating)}

    def _load(self, weights: Weights) -> None:
        for n, v in self._variables().items():
            v.assign(weights[n])
