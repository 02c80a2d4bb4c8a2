"""Columns: arrays that somebody else made, checked: numbers to learn from, labels, users."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedloom.data.name_order import name_order
from fedloom.data.texts import Texts, alike_but_for_capitals
from fedloom.errors import DataError, warn


def features(values: Any, name: str) -> np.ndarray:
    """Return numbers to learn from, in the type that they have."""
    array = _array(values, name)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold numbers, all rows of one shape, but is of type {array.dtype}")
    return array


def labels(values: Any, name: str) -> np.ndarray:
    """Labels as whole numbers from 0, or as texts.

    >>> labels(np.array([[2.0], [0.0]]), "y").tolist()
    [2, 0]
    """
    array = _single(values, name)
    if array.dtype.kind == "U":
        return spelled(array, name)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold whole numbers or texts, but is of type {array.dtype}")
    wrong = ~(np.isfinite(array) & (array >= 0) & (array < 2**31) & (array == np.floor(array)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{name} must hold class numbers, whole and from 0, but row {row} is {array[row]}: number classes from 0, "
            "or predict numbers (--task regression, numbers=True)"
        )
    return array.astype(np.int32)


def targets(values: Any, name: str) -> np.ndarray:
    """Numbers to be predicted, one or several a row."""
    array = _array(values, name)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold numbers, all rows of one shape, but is of type {array.dtype}")
    wrong = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    if wrong.any():
        raise DataError(
            f"{name} must hold finite numbers, but row {int(np.argmax(wrong))} is {array[np.argmax(wrong)]}"
        )
    return array.astype(np.float32)


def user_ids(values: Any, name: str) -> np.ndarray:
    """Who made each example, as whole numbers where they are such, else as texts."""
    array = _single(values, name)
    if array.dtype.kind == "U":
        return spelled(array, name)
    if array.dtype.kind in "biu":
        return array
    if array.dtype.kind != "f":
        return array.astype(str)
    missing = ~np.isfinite(array)
    if missing.any():
        raise DataError(
            f"{name} must name a user in every row, but row {int(np.argmax(missing))} is {array[missing][0]}"
        )
    return array.astype(np.int64) if (array == np.floor(array)).all() else array


def spelled(texts: np.ndarray, name: str) -> np.ndarray:
    """Return texts with each written in one way; see :meth:`fedloom.data.texts.Texts.normalised`.

    Args:
        texts: one text for each example.
        name: what the array is called in messages.

    Raises:
        DataError: a text is missing.

    >>> spelled(np.array(["1.0", "1 ", "2"]), "y").tolist()
    ['1', '1', '2']
    """
    different, codes = np.unique(texts, return_inverse=True)
    found = Texts(codes.astype(np.int32), different.tolist()).normalised(name, "different")
    missing = np.flatnonzero(found.codes < 0)
    if len(missing):
        raise DataError(
            f"{name} must hold a text in every row, but row {missing[0]} is {str(texts[missing[0]])!r}, as are "
            f"{len(missing):,} in all: correct or drop such rows"
        )
    if alike := alike_but_for_capitals(found.names):
        warn(f"{name} has texts that differ in capitals only, {' and '.join(map(repr, alike))}: they stay different")
    return np.array(found.names)[found.codes]


def coded(values: np.ndarray, *, texts_by_number: bool = False) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the different values, sorted, as texts, and the number of each value among them.

    Arguments:
        values: one for each example.
        texts_by_number: whether texts that are all numbers are sorted as numbers, as class names are.

    >>> coded(np.array([10, 9, 10]))
    (('9', '10'), array([1, 0, 1], dtype=int32))
    >>> coded(np.array(["10", "9"]), texts_by_number=True)
    (('9', '10'), array([1, 0], dtype=int32))
    """
    different, codes = np.unique(values, return_inverse=True)
    names = [str(value) for value in different.tolist()]
    order = name_order(names) if texts_by_number else range(len(names))
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    return tuple(names[i] for i in order), place[codes]


def _array(values: Any, name: str) -> np.ndarray:
    array = np.asarray(values)
    if not array.ndim:
        raise DataError(f"{name} must have a row for every example, but is a single value")
    return array


def _single(values: Any, name: str) -> np.ndarray:
    """One value a row, as text where it is text."""
    array = _array(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(
            f"{name} must have one value for every example, but has the shape {array.shape}: of one-hot rows, "
            "give the argmax"
        )
    if array.dtype.kind == "O":
        wrong = [row for row, value in enumerate(array) if not isinstance(value, str | bytes)]
        if wrong:
            raise DataError(f"{name} must hold numbers or texts, but row {wrong[0]} is {array[wrong[0]]!r}")
        array = np.array([value.decode() if isinstance(value, bytes) else value for value in array], str)
    return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
