"""A scikit-learn client: a linear model or a perceptron with ``partial_fit``."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from fedloom.clients.client import Answer, Broadcast, Weights
from fedloom.errors import ArgumentError, require
from fedloom.tasks.task import Batch

LEARNT = ("coef_", "intercept_", "coefs_", "intercepts_")


class SklearnClient:
    """Trains a scikit-learn estimator with ``partial_fit`` (``SGDClassifier``, ``SGDRegressor``, ``MLPClassifier``, …).

    Its learning rate is set to the round's, and constant.

    Arguments:
        estimator: the model.
        examples: the client's, by part.
        features: how many numbers an example has.
        classes: how many classes there are; 0 where numbers are predicted.
    """

    def __init__(self, estimator: Any, examples: dict[str, Batch], *, features: int, classes: int = 0) -> None:
        require(hasattr(estimator, "partial_fit"), "estimator", "one with partial_fit", type(estimator).__name__)
        self.estimator, self.examples, self.classes = deepcopy(estimator), examples, classes
        if not any(hasattr(estimator, name) for name in LEARNT):
            begun = at_rate(
                deepcopy(estimator), 0.01
            )  # it makes room for its weights in its first step, which is then forgotten
            begun.partial_fit(np.zeros((max(classes, 1), features)), np.arange(max(classes, 1)), **self._known())
            for array in learnt(begun).values():
                array[...] = 0 if hasattr(begun, "coef_") else array
            self.estimator = begun

    def weights(self) -> Weights:
        """What it has learned; zero in a linear model that has not begun."""
        return {n: np.asarray(w, np.float32) for n, w in learnt(self.estimator).items()}

    def fit(self, broadcast: Broadcast) -> Answer:
        """``partial_fit`` over the batches that the broadcast says."""
        self._load(broadcast.weights)
        mine = self.examples["train"]
        x, y = _flat(mine["x"]), np.asarray(mine["y"])
        at_rate(self.estimator, broadcast.lr)
        for rows in broadcast.batches(len(y)):
            self.estimator.partial_fit(x[rows], y[rows], **self._known())
        return Answer(self.weights(), len(y))

    def evaluate(self, broadcast: Broadcast, part: str) -> dict[str, float]:
        """Accuracy and, where it gives probabilities, the loss; of numbers the square of the error, and its size."""
        self._load(broadcast.weights)
        mine = self.examples[part]
        x, y, n = _flat(mine["x"]), np.asarray(mine["y"]), len(mine["y"])
        guess = self.estimator.predict(x)
        if not self.classes:
            error = guess - y.reshape(guess.shape)
            return {"loss": float((error**2).sum()), "error": float(np.abs(error).sum()), "count": float(error.size)}
        found = {"accuracy": float((guess == y).sum()), "count": float(n)}
        if not hasattr(self.estimator, "predict_proba"):
            return {"loss": n - found["accuracy"], **found}
        sure = self.estimator.predict_proba(x)[np.arange(n), y]
        return {"loss": float(-np.log(np.maximum(sure, 1e-12)).sum()), **found}

    def _known(self) -> dict[str, np.ndarray]:
        """The classes, where there are some: a client may not have examples of all."""
        return {"classes": np.arange(self.classes)} if self.classes else {}

    def _load(self, weights: Weights) -> None:
        for n, a in learnt(self.estimator).items():
            a[...] = weights[n]


def at_rate(estimator: Any, lr: float) -> Any:
    """The same estimator, with a constant learning rate."""
    linear = "eta0" in estimator.get_params()
    return estimator.set_params(**{"eta0": lr, "learning_rate": "constant"} if linear else {"learning_rate_init": lr})


def learnt(estimator: Any) -> dict[str, np.ndarray]:
    """What an estimator has learned, by name; lists are numbered."""
    found: dict[str, np.ndarray] = {}
    for name in LEARNT:
        value = getattr(estimator, name, None)
        if value is not None:
            found |= {f"{name}{i}": a for i, a in enumerate(value)} if isinstance(value, list) else {name: value}
    if not found:
        raise ArgumentError("estimator", f"one that learns {' or '.join(LEARNT)}", type(estimator).__name__)
    return found


def _flat(x: np.ndarray) -> np.ndarray:
    flat = x.reshape(len(x), -1)
    return flat / 255 if flat.dtype == np.uint8 else flat
