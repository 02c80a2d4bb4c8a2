"""Inputs: what a model sees of a batch's column ``x``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from fedloom.errors import ArgumentError

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Inputs = tuple[int, ...] | Callable[[Array], Array] | None


def as_float(x: Array) -> Float[Array, ...]:
    """Pixels as numbers between 0 and 1; anything else as it is. Images stay bytes until they get here."""
    return x.astype(float) / 255 if x.dtype == jnp.uint8 else x.astype(float)


def seen(inputs: Inputs, *, tokens: bool = False, channels_first: bool = False) -> Callable[[Array], Array]:
    """What makes of a column ``x`` what a model sees: pixels are between 0 and 1, all else is as it is.

    Arguments:
        inputs: the shape of an example that the model wants, or a function from the column's rows to what it wants;
            ``None``: as they are.
        tokens: whether they are numbers of tokens.
        channels_first: whether a model that wants other axes of an image wants its colours first.

    >>> seen((1, 28, 28))(np.zeros((5, 28, 28), np.uint8)).shape
    (5, 1, 28, 28)
    >>> seen((3, 32, 32))(np.zeros((5, 28, 28), np.uint8))
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: inputs must be a shape that examples of shape (28, 28) can take, but is (3, 32, 32)
    """
    if callable(inputs):
        return inputs

    def arranged(x: Array) -> Array:
        x = x.astype(jnp.int32) if tokens else as_float(x)
        mine = x.shape[1:]
        if inputs is None or mine == inputs:
            return x
        if channels_first and len(mine) == 3 and (mine[2], *mine[:2]) == inputs:
            return jnp.moveaxis(x, 3, 1)
        if np.prod(mine) != np.prod(inputs):
            raise ArgumentError("inputs", f"a shape that examples of shape {mine} can take", inputs)
        return x.reshape(len(x), *inputs)

    return arranged
