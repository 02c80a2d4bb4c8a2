"""Keras's own loop over clients, for `users_models.py`, on its JAX backend: ``train_on_batch``, or ``fit``."""

from __future__ import annotations

from typing import Any

import keras
import networks_keras
import numpy as np
from contenders import Job, Loop
from networks import MOMENTUM


class KerasLoop(Loop):
    """A loop around a compiled model.

    Arguments:
        fits: whether a client's epoch is one call of ``fit``, and not a call of ``train_on_batch`` for each batch.
    """

    def __init__(self, fits: bool = False) -> None:
        self.fits = fits

    def prepare(self, job: Job) -> int:
        """Build the network and keep the examples; return how many numbers the model has."""
        keras.backend.clear_session()
        self.job, network = job, job.described
        self.model = networks_keras.build(network, job.seed)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.model.compile(keras.optimizers.SGD(network.lr, MOMENTUM), loss)
        x, self.y = job.draw()
        self.x = x if network.tokens or len(network.shape) < 3 else np.ascontiguousarray(np.moveaxis(x, 2, -1))
        self.start = self.weights = self.model.get_weights()
        self.model.optimizer.build(self.model.trainable_variables)
        return sum(w.size for w in self.start)

    def train(self, weights: Any, client: int, order: np.ndarray) -> Any:
        """Return the weights after a client's epoch."""
        self.model.set_weights(weights)
        for variable in self.model.optimizer.variables:
            if "learning_rate" not in variable.path:
                variable.assign(np.zeros(variable.shape, variable.dtype))
        x, y = self.x[client], self.y[client]
        if self.fits:
            self.model.fit(x[order], y[order], self.job.batch, shuffle=False, verbose=0)
        else:
            for i in range(0, len(order), self.job.batch):
                rows = order[i : i + self.job.batch]
                self.model.train_on_batch(x[rows], y[rows])
        return self.model.get_weights()

    def add(self, total: Any, weights: Any) -> Any:
        """Return the sum."""
        return [a + b for a, b in zip(total, weights, strict=True)]

    def divide(self, total: Any, by: int) -> Any:
        """Return the quotient."""
        return [a / np.float32(by) for a in total]

    def flat(self, weights: Any) -> np.ndarray:
        """Return weights as one array of float32."""
        return np.concatenate([w.ravel() for w in weights])

    def parts(self, flat: np.ndarray) -> Any:
        """Return weights that were flattened."""
        pieces = np.split(np.array(flat), np.cumsum([w.size for w in self.start])[:-1])
        return [piece.reshape(w.shape) for piece, w in zip(pieces, self.start, strict=True)]

    def judge(self, weights: Any) -> float:
        """Return the loss of the first client's examples."""
        self.model.set_weights(weights)
        return float(self.model.evaluate(self.x[0], self.y[0], self.job.examples, verbose=0))
