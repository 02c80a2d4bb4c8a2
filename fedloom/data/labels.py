"""Labels: the column of a table that is predicted, as classes or as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.cells import NumberFormat
from fedloom.data.partition.partition import counted
from fedloom.data.texts import Texts
from fedloom.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Float

TASKS = ("auto", "classification", "regression")
UNLABELLED = ("error", "skip")
ROWS = 20  # with fewer rows, different labels show nothing
CLASSES = 20  # whole numbers from which it is asked whether they are classes
FEW = 20  # rows on average for one class, below which it is asked


def check_classes(where: str, y: Texts, decimal: str, *, is_stated: bool) -> None:
    """Raise a :class:`DataError` if labels are numbers or texts rather than a few classes.

    Arguments:
        where: what to call the column.
        y: the labels.
        decimal: the character before decimals.
        is_stated: whether the user says that the labels are classes.
    """
    rows, classes = len(y) - y.missing, len(y.names)
    numbers = _numbers(y, decimal)
    offer = "predict them with --task regression" if numbers is not None else "name another column with --label"
    if rows >= ROWS and 2 * classes > rows:
        raise DataError(f"{where} is no label: {classes:,} different values in {rows:,} rows; {offer}")
    if numbers is None or is_stated:
        return
    if (numbers != np.floor(numbers)).any():
        shown = next(name for name, value in zip(y.names, numbers, strict=True) if value != np.floor(value))
        kind = f"decimal numbers such as {shown} ({classes:,} different in {counted(rows, 'row', 'rows')})"
    elif classes > CLASSES and classes * FEW > rows:
        kind = f"{classes:,} different whole numbers in {rows:,} rows"
    else:
        return
    raise DataError(f"{where} holds {kind}: {offer}, or say --task classification if each is a class")


def _numbers(y: Texts, decimal: str) -> np.ndarray | None:
    """Return the classes as numbers, if all are numbers."""
    form = NumberFormat(decimal)
    return np.array([form.parse(name) for name in y.names]) if all(map(form.fits, y.names)) and y.names else None


def targets(where: str, column: object) -> Float[np.ndarray, " rows"]:
    """Return the numbers to be predicted, NaN where the cell is missing."""
    if isinstance(column, np.ndarray):
        return column.astype(np.float64)
    shown = f" such as {column.names[0]!r}" if isinstance(column, Texts) and column.names else ""
    kind = "texts" if isinstance(column, Texts) else "dates"
    raise DataError(f"{where} holds {kind}{shown}, which cannot be predicted as numbers: leave out --task regression")
