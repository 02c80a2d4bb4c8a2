"""Lanes: an array of images in the kernels' order of axes, which remembers its order in the user's model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jax import lax

if TYPE_CHECKING:
    from jaxtyping import Array


@dataclass(frozen=True)
class Lanes:
    """An array whose last axis is the batch.

    Args:
        array: the numbers.
        order: the axes of the model's array in the order in which they are here; the last is the batch.
    """

    array: Array
    order: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape in the model."""
        return tuple(self.array.shape[place] for place in np.argsort(self.order))

    def plain(self) -> Array:
        """Return the array as the model has it."""
        return self.array.transpose(np.argsort(self.order))

    def like(self, array: Array) -> Lanes:
        """Return other numbers in the same order."""
        return Lanes(array, self.order)


@dataclass(frozen=True)
class Broadcast:
    """A small array that is to be repeated to a shape, which is left to the operation that uses it."""

    array: Array
    shape: tuple[int, ...]
    axes: tuple[int, ...]

    def plain(self) -> Array:
        """Return the repeated array."""
        return lax.broadcast_in_dim(self.array, self.shape, self.axes)


Kept = Lanes | Broadcast


def plain(value: Array | Kept) -> Array:
    """Return a value as the model has it."""
    return value.plain() if isinstance(value, Lanes | Broadcast) else value


def to_lanes(value: Array | Kept, order: tuple[int, ...]) -> Lanes:
    """Return a value in the kernels' order."""
    if isinstance(value, Lanes):
        if value.order == order:
            return value
        return Lanes(value.array.transpose([value.order.index(axis) for axis in order]), order)
    if isinstance(value, Broadcast):
        return _broadcast(value, order)
    return Lanes(value.transpose(order), order)


def _broadcast(value: Broadcast, order: tuple[int, ...]) -> Lanes:
    """Repeat a small array in the kernels' order."""
    places = [order.index(axis) for axis in value.axes]
    array = value.array.transpose(np.argsort(places))
    sizes = tuple(value.shape[axis] for axis in order)
    return Lanes(lax.broadcast_in_dim(array, sizes, sorted(places)), order)
