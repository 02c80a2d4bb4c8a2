"""Target: the numbers that a model predicts, and their scale."""

from __future__ import annotations

import numpy as np

from fedloom.data.federated import FederatedData


def predicts_numbers(data: FederatedData) -> bool:
    """Return whether the labels are numbers to be predicted rather than classes."""
    return data.columns["y"].dtype.kind == "f"


def target_scale(data: FederatedData) -> tuple[float, float]:
    """Return the mean and the deviation of the numbers to be predicted, by which a model's output is scaled.

    They are those of a server, if it has told them, else those of the training examples.
    """
    if data.target_scale is not None:
        return data.target_scale
    return mean_and_deviation(data.columns["y"][data.examples("train")])


def mean_and_deviation(values: np.ndarray) -> tuple[float, float]:
    """Return the mean and the deviation of some numbers; 1 for the deviation if all are the same.

    >>> mean_and_deviation(np.array([1.0, 3.0])), mean_and_deviation(np.array([2.0]))
    ((2.0, 1.0), (2.0, 1.0))
    """
    mean, deviation = float(values.mean(dtype=np.float64)), float(values.std(dtype=np.float64))
    return mean, deviation if deviation > 1e-12 * abs(mean) else 1.0
