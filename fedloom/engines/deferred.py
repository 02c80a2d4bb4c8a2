"""Deferred: results that a device may still be computing, fetched together by one transfer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import jax
import numpy as np

if TYPE_CHECKING:
    from jaxtyping import PyTree

T = TypeVar("T")
S = TypeVar("S")
Columns = dict[str, np.ndarray]
"""Name of a column of the history → its value for each experiment."""


@dataclass(frozen=True)
class Deferred(Generic[T]):
    """Arrays that a device may still be computing, and the function that makes a result of them.

    To create one only dispatches work. To fetch it waits for the device.

    Args:
        arrays: arrays on the device or on the host.
        finish: makes the result of the same arrays on the host.

    >>> total = Deferred({"sum": np.array([6.0]), "count": np.array([3.0])}, lambda a: a["sum"] / a["count"])
    >>> total.fetch().tolist()
    [2.0]
    """

    arrays: PyTree
    finish: Callable[[Any], T]

    def fetch(self) -> T:
        """Wait for the arrays and return the result."""
        return self.finish(jax.device_get(self.arrays))

    def then(self, change: Callable[[T], S]) -> Deferred[S]:
        """Return the deferred result of a function of this result."""
        return Deferred(self.arrays, partial(_in_turn, self.finish, change))


def known(result: T) -> Deferred[T]:
    """Return a result that is known already as a deferred one."""
    return Deferred((), partial(_constant, result))


def merge(parts: Sequence[Deferred[Columns]]) -> Deferred[Columns]:
    """Return the columns of several deferred results as one.

    >>> merge([known({"a": np.ones(1)}), known({"b": np.zeros(1)})]).fetch()
    {'a': array([1.]), 'b': array([0.])}
    """
    return Deferred([part.arrays for part in parts], partial(_union, [part.finish for part in parts]))


def _constant(result: T, _: Any) -> T:
    return result


def _in_turn(finish: Callable[[Any], T], change: Callable[[T], S], arrays: Any) -> S:
    return change(finish(arrays))


def _union(finish: Sequence[Callable[[Any], Mapping[str, np.ndarray]]], arrays: Sequence[Any]) -> Columns:
    found = [one(mine) for one, mine in zip(finish, arrays, strict=True)]
    return {name: value for columns in found for name, value in columns.items()}
