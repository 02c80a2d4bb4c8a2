"""A Keras client: a compiled model on any backend, trained by its own ``train_on_batch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fedloom.clients.client import Answer, Broadcast, Weights
from fedloom.clients.judging import judged
from fedloom.clients.torch_client import as_float
from fedloom.errors import require
from fedloom.tasks.task import Batch

BEGUN: WeakKeyDictionary[Any, list[np.ndarray]] = WeakKeyDictionary()
"""What each model's optimiser remembers before its first step."""


class KerasClient:
    """Trains a Keras model by Keras's own means, on TensorFlow, JAX or PyTorch.

    Arguments:
        model: the model, compiled with a loss and an optimiser, whose learning rate is set to the round's.
        examples: the client's, by part.
        inputs: from an array of the column x to what the model wants; by default pixels between 0 and 1, in the shape
            that the model says.
    """

    def __init__(
        self, model: Any, examples: dict[str, Batch], *, inputs: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> None:
        require(getattr(model, "compiled", False), "model", "compiled: model.compile(optimizer, loss)", model)
        self.model, self.examples = model, examples
        if model not in BEGUN:
            model.optimizer.build(model.trainable_variables)
            BEGUN[model] = [np.array(v) for v in model.optimizer.variables]
        self.inputs = inputs or self._shaped

    def weights(self) -> Weights:
        """All of the model's numbers but those that random numbers come from."""
        return {f"{i}": np.asarray(w) for i, w in enumerate(self.model.get_weights()) if w.dtype.kind == "f"}

    def fit(self, broadcast: Broadcast) -> Answer:
        """Steps over the batches that the broadcast says, with a fresh optimiser."""
        self._load(broadcast.weights, np.array(broadcast.key))
        x, y = self._batch("train")
        for variable, first in zip(self.model.optimizer.variables, BEGUN[self.model], strict=True):
            variable.assign(first)
        self.model.optimizer.learning_rate = broadcast.lr
        for rows in broadcast.batches(len(y)):
            self.model.train_on_batch(x[rows], y[rows])
        return Answer(self.weights(), len(y))

    def evaluate(self, broadcast: Broadcast, part: str) -> dict[str, float]:
        """Loss and, where there are classes, accuracy."""
        self._load(broadcast.weights)
        x, y = self._batch(part)
        loss = self.model.evaluate(x, y, verbose=0, return_dict=True)["loss"]
        return judged(loss, np.asarray(self.model.predict(x, verbose=0)), y)

    def _load(self, weights: Weights, key: np.ndarray | None = None) -> None:
        """The model as it was sent; layers that draw random numbers draw from the key."""
        now = self.model.get_weights()
        drawn = [w if key is None or w.dtype.kind != "u" else key.astype(w.dtype) for w in now]
        self.model.set_weights([weights.get(f"{i}", w) for i, w in enumerate(drawn)])

    def _batch(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        examples = self.examples[part]
        return self.inputs(examples["x"]), np.asarray(examples["y"])

    def _shaped(self, x: np.ndarray) -> np.ndarray:
        shape = getattr(self.model, "input_shape", None)
        wanted = shape[1:] if isinstance(shape, tuple) and None not in shape[1:] else x.shape[1:]
        return as_float(x).reshape(len(x), *wanted)
