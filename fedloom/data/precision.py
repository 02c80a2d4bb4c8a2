"""Precision: whether float32, in which models compute, can tell the values of a column apart."""

from __future__ import annotations

import numpy as np

from fedloom.errors import warn

EXACT = 2**24  # whole numbers up to this are exact in float32
SAMPLED = 2**22  # values up to which every value is compared; of more, a sample of rows
ROWS, FEATURES = 4096, 512  # how many rows of a larger column are compared, and how many features
TOLERATED = 0.01  # share of floats that may fall together: random numbers of 64 bits do so now and then


def warn_of_rounding(name: str, column: str, values: np.ndarray) -> None:
    """Warn if different values of a feature become equal in float32.

    Args:
        name: the data set.
        column: the column.
        values: its numbers before they are converted, one row an example.
    """
    if not _may_round(values):
        return
    rows = values.reshape(len(values), -1)
    sample = rows if rows.size <= SAMPLED else rows[_some(len(rows))][:, :FEATURES]
    before, after = distinct(sample), distinct(_narrowed(sample))
    tolerated = 0 if values.dtype.kind in "iu" else TOLERATED
    wrong = np.flatnonzero(after < (1 - tolerated) * before)
    if not len(wrong):
        return
    worst = int(wrong[np.argmin(after[wrong] / before[wrong])])
    many, left = (int(distinct(a)[0]) for a in (rows[:, [worst]], _narrowed(rows[:, [worst]])))
    where = f", feature {worst}" if rows.shape[1] > 1 else ""
    others = f" (and {len(wrong) - 1:,} more features)" if len(wrong) > 1 else ""
    warn(
        f"{name}: models compute in float32, which cannot tell all values of column {column}{where} apart: of {many:,} "
        f"different {values.dtype} values {left:,} remain{others}. Subtract an offset from large numbers"
    )


def distinct(values: np.ndarray) -> np.ndarray:
    """Return how many different values each feature has.

    >>> distinct(np.array([[1, 5], [2, 5], [1, 5]])).tolist()
    [2, 1]
    """
    ordered = np.sort(values, axis=0)
    return 1 + (ordered[1:] != ordered[:-1]).sum(axis=0)


def _may_round(values: np.ndarray) -> bool:
    """Whether the type can hold what float32 cannot, and whole numbers are large enough."""
    if len(values) < 2 or not values.size or values.dtype.itemsize < 4 or values.dtype == np.float32:
        return False
    if values.dtype.kind == "f":
        return True
    return bool(values.max() > EXACT or values.min() < -EXACT)


def _narrowed(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _some(rows: int) -> np.ndarray:
    """Neighbouring rows, and rows from everywhere."""
    return np.unique(np.concatenate([np.arange(min(ROWS, rows)), np.linspace(0, rows - 1, ROWS).astype(int)]))
