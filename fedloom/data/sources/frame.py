"""Frame: a pandas data frame handed over in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.sources.csv import LARGEST
from fedloom.data.table import Table, Texts
from fedloom.errors import DataError, UnknownName, require

if TYPE_CHECKING:
    import pandas as pd


def frame(
    data: pd.DataFrame,
    label: str,
    user: str | None = None,
    *,
    drop: str | Sequence[str] = (),
    window: int | None = None,
    step: int | None = None,
    name: str = "frame",
) -> Dataset:
    """Examples from a pandas data frame: numbers (and truth values) as numbers, everything else as categories.

    The arguments are those of :func:`fedloom.data.csv`.
    """
    require(hasattr(data, "columns") and hasattr(data, "iloc"), "data", "a pandas data frame", type(data).__name__)
    names = list(map(str, data.columns))
    if len(set(names)) < len(names):
        raise DataError(f"the frame names the column {next(n for n in names if names.count(n) > 1)!r} twice")
    dropped = {drop} if isinstance(drop, str) else set(drop)
    for argument, column in (("label", label), ("user", user), *(("drop", column) for column in dropped)):
        if column is not None and column not in data.columns:
            raise UnknownName(f"{argument} (a column of the frame)", column, map(str, data.columns))
    if not len(data):
        raise DataError("the frame has no rows")
    kept = [column for column in data.columns if column not in dropped]
    columns = {str(column): _column(data[column], column in (label, user)) for column in kept}
    return Table(name, columns).dataset(str(label), None if user is None else str(user), window, step)


def _column(series: pd.Series, text: bool) -> np.ndarray | Texts:
    """One column: numbers with NaN, or texts with -1, where a cell is missing."""
    if series.dtype.kind in "biuf" and not text:
        numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
        if (np.abs(numbers) > LARGEST).any():
            row = int(np.argmax(np.abs(numbers) > LARGEST))
            raise DataError(f"row {row}, column {series.name} of the frame: {numbers[row]} is too large a number")
        return numbers
    if series.dtype.kind in "mMc":
        raise DataError(f"column {series.name} of the frame holds {series.dtype}: drop it, or make it numbers")
    held = ~series.isna().to_numpy()
    names, codes = np.unique(series[held].astype(str).to_numpy(dtype=str), return_inverse=True)
    places = np.full(len(series), -1, np.int32)
    places[held] = codes
    return Texts(places, names.tolist())
