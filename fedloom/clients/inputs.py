"""Inputs: what a model that runs by its own code sees of a client's column ``x``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedloom.tasks.inputs import is_integer, seen

Inputs = tuple[int, ...] | Callable[[np.ndarray], np.ndarray] | None
"""The shape of an example that a model wants, or a function from the column x to what it wants."""


def looked(x: np.ndarray, inputs: Inputs = None, *, channels_first: bool = False) -> np.ndarray:
    """Return in NumPy what a compiled model sees (:mod:`fedloom.tasks.inputs`): integers that are no pixels stay so.

    >>> looked(np.full((2, 28, 28), 255, np.uint8), (1, 28, 28))[0, 0, 0, :3]
    array([1., 1., 1.], dtype=float32)
    """
    if callable(inputs):
        return inputs(x)
    arranged = seen(inputs, channels_first=channels_first)(x)
    return np.asarray(arranged, np.int32 if is_integer(x) else np.float32)


def takes_integers(x: np.ndarray, call: Callable[[np.ndarray], object]) -> bool:
    """Return whether a model takes integers; one that needs floats gets floats of the same value.

    Args:
        x: what the model sees.
        call: calls the model on some rows.

    >>> takes_integers(np.zeros((2, 3), np.int32), lambda x: x[0] << 1)
    True
    >>> takes_integers(np.zeros((2, 3), np.int32), lambda x: x["column"])
    False
    """
    try:
        call(x[:1])
    except Exception:  # each library has its own; if floats are refused too, training says why
        return False
    return True
