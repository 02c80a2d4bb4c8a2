"""Judging: what is measured of a model's outputs, for clients with code of their own."""

from __future__ import annotations

import numpy as np


def judged(loss: float, outputs: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Sums over examples: the loss, and how many classes are right where there is an output for each class.

    Arguments:
        loss: the mean over the examples.
        outputs: a number for each class, or the numbers that were predicted.

    >>> judged(0.5, np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([0, 1]))
    {'loss': 1.0, 'count': 2.0, 'accuracy': 1.0}
    """
    n = len(labels)
    found = {"loss": float(loss) * n, "count": float(n)}
    if labels.dtype.kind in "iu" and labels.ndim == 1 and outputs.ndim == 2 and outputs.shape[1] > 1:
        found["accuracy"] = float((outputs.argmax(axis=1) == labels).sum())
    return found
