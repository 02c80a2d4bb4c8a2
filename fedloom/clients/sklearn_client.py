"""A scikit-learn client: a linear model or a perceptron with ``partial_fit``."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from fedloom.clients.client import Answer, Broadcast, Weights
from fedloom.data.inputs import white
from fedloom.errors import ArgumentError, require
from fedloom.tasks.task import Batch

LEARNT = ("coef_", "intercept_", "coefs_", "intercepts_")
RATES = ("eta0", "learning_rate_init")
"""What estimators call their learning rate."""


class SklearnClient:
    """Trains a scikit-learn estimator with ``partial_fit`` (``SGDClassifier``, ``SGDRegressor``, ``MLPClassifier``, …).

    Its learning rate is set to the round's, and constant. ``SGDClassifier`` and ``SGDRegressor`` take a step for each
    example of a batch, ``MLPClassifier`` one for the batch.

    Arguments:
        estimator: the model.
        examples: the client's, by part.
        features: how many numbers an example has.
        classes: how many classes there are; 0 where numbers are predicted.
    """

    def __init__(self, estimator: Any, examples: dict[str, Batch], *, features: int, classes: int = 0) -> None:
        kind = type(estimator).__name__
        require(hasattr(estimator, "partial_fit"), "estimator", "one with partial_fit", kind)
        rates = [name for name in RATES if name in estimator.get_params()]
        require(bool(rates), "estimator", f"one with a learning rate ({' or '.join(RATES)})", kind)
        require(not estimator.get_params().get("average"), "estimator", "one with average=False", kind)
        self.examples, self.classes = examples, classes
        self.begun = self.estimator = self._begun(deepcopy(estimator), features)

    def weights(self) -> Weights:
        """What it has learned; zero in a linear model that has not begun."""
        return {n: np.asarray(w, np.float32) for n, w in learnt(self.estimator).items()}

    def fit(self, broadcast: Broadcast) -> Answer:
        """``partial_fit`` over the batches that the broadcast says; it remembers no earlier round."""
        self.estimator = deepcopy(self.begun)
        self.estimator.set_params(**_told(self.estimator, broadcast.lr, broadcast.seed))
        self._load(broadcast.weights)
        x, y = self._batch("train")
        for rows in broadcast.batches(len(y)):
            self.estimator.partial_fit(x[rows], y[rows], **self._known())
        return Answer(self.weights(), len(y))

    def evaluate(self, broadcast: Broadcast, part: str) -> dict[str, float]:
        """Accuracy and, where it gives probabilities, the loss; of numbers the square of the error, and its size."""
        self._load(broadcast.weights)
        x, y = self._batch(part)
        n, guess = len(y), self.estimator.predict(x)
        if not self.classes:
            error = guess - y.reshape(guess.shape)
            return {"loss": float((error**2).sum()), "error": float(np.abs(error).sum()), "count": float(error.size)}
        found = {"accuracy": float((guess == y).sum()), "count": float(n)}
        if not hasattr(self.estimator, "predict_proba"):
            return {"loss": n - found["accuracy"], **found}
        sure = self.estimator.predict_proba(x)[np.arange(n), y]
        return {"loss": float(-np.log(np.maximum(sure, 1e-12)).sum()), **found}

    def trained(self, weights: Weights) -> Any:
        """An estimator with these weights."""
        self._load(weights)
        return self.estimator

    def _begun(self, estimator: Any, features: int) -> Any:
        """An estimator that has room for its weights, made in a first step that is then forgotten."""
        if any(hasattr(estimator, name) for name in LEARNT):
            return _forgetful(estimator)
        some = max(self.classes, 1)
        estimator.partial_fit(np.zeros((some, features)), np.arange(some), **self._known())
        for array in learnt(estimator).values():
            array[...] = 0 if hasattr(estimator, "coef_") else array
        return _forgetful(estimator)

    def _known(self) -> dict[str, np.ndarray]:
        """The classes, where there are some: a client may not have examples of all."""
        return {"classes": np.arange(self.classes)} if self.classes else {}

    def _load(self, weights: Weights) -> None:
        for n, a in learnt(self.estimator).items():
            a[...] = weights[n]

    def _batch(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Flat examples with 64 bits, which is what linear models compute with once they have begun so."""
        x, y = self.examples[part]["x"], np.asarray(self.examples[part]["y"])
        flat = x.reshape(len(x), -1).astype(np.float64)
        return flat / (white(x.dtype) or 1), y


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


def _told(estimator: Any, lr: float, seed: int) -> dict[str, Any]:
    """Its constant learning rate and its seed, by the names that it has for them."""
    words = {**dict.fromkeys(RATES, lr), "learning_rate": "constant", "random_state": seed}
    return {name: value for name, value in words.items() if name in estimator.get_params()}


def _forgetful(estimator: Any) -> Any:
    """The same, without what a perceptron's optimiser remembers, so that it begins anew."""
    vars(estimator).pop("_optimizer", None)
    return estimator
