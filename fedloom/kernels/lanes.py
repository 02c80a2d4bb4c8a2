"""Lanes: an array of images in the kernels' order of axes, which remembers its order in the user's model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import lax

from fedloom.kernels.processor import width

if TYPE_CHECKING:
    from jaxtyping import Array


@dataclass(frozen=True)
class Lanes:
    """An array whose last axis is the batch, padded to a multiple of the vector width.

    Args:
        array: the numbers.
        order: the axes of the model's array in the order in which they are here; the last is the batch.
        batch: the number of images without padding.
    """

    array: Array
    order: tuple[int, ...]
    batch: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape in the model."""
        sizes = dict(zip(self.order, (*self.array.shape[:-1], self.batch), strict=True))
        return tuple(sizes[axis] for axis in range(len(sizes)))

    @property
    def is_padded(self) -> bool:
        """Return True if some images are padding."""
        return self.array.shape[-1] != self.batch

    def plain(self) -> Array:
        """Return the array as the model has it."""
        return self.unpadded().transpose(np.argsort(self.order))

    def unpadded(self) -> Array:
        """Return the numbers without padding, in the kernels' order."""
        return self.array[..., : self.batch] if self.is_padded else self.array

    def like(self, array: Array) -> Lanes:
        """Return other numbers in the same order."""
        return Lanes(array, self.order, self.batch)


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


def padded_size(batch: int) -> int:
    """Return the smallest multiple of the vector width that holds a batch."""
    return -(-batch // width()) * width()


def to_lanes(value: Array | Kept, order: tuple[int, ...]) -> Lanes:
    """Return a value in the kernels' order."""
    if isinstance(value, Lanes):
        if value.order == order:
            return value
        moved = value.array.transpose([value.order.index(axis) for axis in order])
        if value.order[-1] == order[-1]:
            return Lanes(moved, order, value.batch)
        value = value.plain()
    if isinstance(value, Broadcast):
        return _broadcast(value, order)
    array = value.transpose(order)
    return Lanes(_pad(array), order, array.shape[-1])


def _broadcast(value: Broadcast, order: tuple[int, ...]) -> Lanes:
    """Repeat a small array in the kernels' order; one image stays one."""
    places = [order.index(axis) for axis in value.axes]
    array = value.array.transpose(np.argsort(places))
    batch = value.shape[order[-1]]
    if order[-1] in value.axes and array.shape[-1] == batch:
        array = _pad(array)
    sizes = (*(value.shape[axis] for axis in order[:-1]), padded_size(batch) if batch > 1 else 1)
    return Lanes(lax.broadcast_in_dim(array, sizes, sorted(places)), order, batch)


def _pad(array: Array) -> Array:
    """Add images of zeros up to a multiple of the vector width; one image stays one, and is repeated where needed."""
    missing = padded_size(array.shape[-1]) - array.shape[-1] if array.shape[-1] > 1 else 0
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)]) if missing else array
