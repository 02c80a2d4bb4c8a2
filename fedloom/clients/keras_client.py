"""A Keras client: a compiled model on any backend, trained by its own ``train_on_batch``."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fedloom.clients.client import Answer, Broadcast, Weights
from fedloom.clients.inputs import Inputs, looked, takes_integers
from fedloom.clients.judging import judged
from fedloom.errors import require
from fedloom.tasks.from_keras import SEED, called, check_scaled_once, shape_of
from fedloom.tasks.task import Batch

Memory = list[tuple[Any, np.ndarray]]
"""Variables, and what they hold before the first step."""

BEGUN: WeakKeyDictionary[Any, Memory] = WeakKeyDictionary()
"""What each model and its optimiser remember beside what is exchanged."""


class KerasClient:
    """Trains a Keras model by Keras's own means, on TensorFlow, JAX or PyTorch.

    Arguments:
        model: the model, compiled with a loss and an optimiser, whose learning rate is set to the round's.
        examples: the client's, by part.
        inputs: the shape of an example that the model wants (by default what it says itself), or a function from an
            array of the column x to what it wants.
    """

    def __init__(self, model: Any, examples: dict[str, Batch], *, inputs: Inputs = None) -> None:
        require(getattr(model, "compiled", False), "model", "compiled: model.compile(optimizer, loss)", model)
        require(model.built, "model", "built: give it an Input, or call it once on a batch", model.name)
        self.model, self.examples = model, examples
        self.inputs = inputs if inputs is not None else shape_of(model)
        if model not in BEGUN:
            BEGUN[model] = _begun(model)

    def weights(self) -> Weights:
        """The model's floating-point variables: what it learns, and the statistics of its layers."""
        return {n: _read(v) for n, v in self._variables().items()}

    def fit(self, broadcast: Broadcast) -> Answer:
        """Steps over the batches that the broadcast says, with a fresh optimiser."""
        self._load(broadcast.weights)
        for variable, first in BEGUN[self.model]:
            variable.assign(first)
        draws = np.random.default_rng(broadcast.key)  # layers that draw random numbers draw from the key
        for variable in _seeds(self.model):
            variable.assign(draws.integers(0, 2**31, variable.shape))
        self.model.optimizer.learning_rate = broadcast.lr
        x, y = self._batch("train")
        for rows in broadcast.batches(len(y)):
            self.model.train_on_batch(x[rows], y[rows])
        return Answer(self.weights(), len(y))

    def evaluate(self, broadcast: Broadcast, part: str) -> dict[str, float]:
        """Loss and, where there are classes, accuracy."""
        self._load(broadcast.weights)
        x, y = self._batch(part)
        loss = self.model.evaluate(x, y, verbose=0, return_dict=True)["loss"]
        return judged(loss, np.asarray(self.model.predict(x, verbose=0)), y)

    def trained(self, weights: Weights) -> Any:
        """The model itself, with these weights."""
        self._load(weights)
        return self.model

    def _variables(self) -> dict[str, Any]:
        """What is exchanged, by name."""
        floating = [v for v in self.model.weights if _floating(v)]
        return dict(zip(called(floating, self.model.name), floating, strict=True))

    def _load(self, weights: Weights) -> None:
        for n, v in self._variables().items():
            v.assign(weights[n])

    def _batch(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        examples = self.examples[part]
        if not callable(self.inputs):
            check_scaled_once(self.model, examples["x"])
        x = looked(examples["x"], self.inputs)
        if x.dtype.kind == "i" and not callable(self.inputs) and not takes_integers(x, self.model):
            x = x.astype(np.float32)
        return x, np.asarray(examples["y"])


def _begun(model: Any) -> Memory:
    """What a fresh optimiser remembers, and the model's whole numbers."""
    fresh = type(model.optimizer).from_config(model.optimizer.get_config())
    for optimizer in (fresh, model.optimizer):
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
    first = [_read(v) for v in fresh.variables]
    whole = [v for v in model.weights if not _floating(v)]
    return [*zip(model.optimizer.variables, first, strict=True), *((v, _read(v)) for v in whole)]


def _read(variable: Any) -> np.ndarray:
    """What a variable holds now: a copy, which stays when the variable changes."""
    return np.asarray(variable).copy()


def _floating(variable: Any) -> bool:
    return "float" in str(variable.dtype)


def _seeds(model: Any) -> list[Any]:
    """The variables that random numbers come from."""
    return [v for v in model.variables if v.path.split("/")[-1] == SEED]
