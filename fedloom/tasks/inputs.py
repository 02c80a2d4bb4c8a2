"""Inputs: what a model sees of a batch's column ``x``, whose type says what it is (:mod:`fedloom.data.inputs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from fedloom.data.inputs import white
from fedloom.errors import ArgumentError

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Inputs = tuple[int, ...] | Callable[[Array], Array] | None


def as_float(x: Array) -> Float[Array, ...]:
    """Return pixels (``uint8``, ``uint16``) as numbers between 0 and 1, and other numbers as floats, unscaled."""
    most = white(x.dtype)
    return x.astype(float) / most if most else x.astype(float)


def as_declared(x: Array) -> Array:
    """Return pixels as numbers between 0 and 1, integers as ``int32``, and floats as they are.

    >>> as_declared(np.array([[3, 200]], np.int16)).dtype
    dtype('int32')
    """
    return x.astype(jnp.int32) if is_integer(x) else as_float(x)


def is_integer(x: Array | np.ndarray) -> bool:
    """Return whether a column holds integers that are no pixels."""
    return bool(jnp.issubdtype(x.dtype, jnp.integer)) and not white(x.dtype)


def tokens_of(loss: object) -> str:
    """Return what takes x for the numbers of tokens, if a loss does."""
    return f"the loss {loss}" if loss == "next_token" else ""


def seen(inputs: Inputs, *, tokens: str = "", channels_first: bool = False) -> Callable[[Any], Array]:
    """Return a function from the column ``x`` to what a model sees of it.

    Args:
        inputs: the shape of an example that the model wants, or a function from the column's rows to what it wants;
            ``None``: they keep their shape.
        tokens: what takes x for the numbers of tokens, such as the loss ``next_token``; nothing if x is what its type
            says.
        channels_first: whether a model that wants other axes of an image wants its channels first.

    >>> seen((1, 28, 28))(np.zeros((5, 28, 28), np.uint8)).shape
    (5, 1, 28, 28)
    >>> seen((3, 32, 32))(np.zeros((5, 28, 28), np.uint8))
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: inputs must be a shape that examples of shape (28, 28) can take, but is (3, 32, 32)
    """
    if callable(inputs):
        return inputs

    def arranged(x: Any) -> Array:
        if tokens and jnp.issubdtype(x.dtype, jnp.floating):
            raise ArgumentError("x", f"integers, which {tokens} takes for the numbers of tokens", str(x.dtype))
        x = x.astype(jnp.int32) if tokens else as_declared(x)
        mine = x.shape[1:]
        if inputs is None or mine == inputs:
            return x
        if channels_first and len(mine) == 3 and (mine[2], *mine[:2]) == inputs:
            return jnp.moveaxis(x, 3, 1)
        if np.prod(mine) != np.prod(inputs):
            raise ArgumentError("inputs", f"a shape that examples of shape {mine} can take", inputs)
        return x.reshape(len(x), *inputs)

    return arranged
