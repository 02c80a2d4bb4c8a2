"""Shapes: what examples look like, without their numbers."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

Shapes = tuple[tuple[str, tuple[int, ...], str], ...]
"""The name, the shape of an example and the type of each column."""


def shapes_of(columns: Mapping[str, np.ndarray]) -> Shapes:
    """Return the shapes of columns.

    >>> shapes_of({"x": np.zeros((5, 2), np.float32)})
    (('x', (2,), '<f4'),)
    """
    return tuple((name, column.shape[1:], column.dtype.str) for name, column in sorted(columns.items()))


def examples(shapes: Shapes, many: int) -> dict[str, jax.ShapeDtypeStruct]:
    """Return columns of so many examples."""
    return {name: jax.ShapeDtypeStruct((many, *shape), np.dtype(kind)) for name, shape, kind in shapes}
