"""Frame: a pandas data frame handed over in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.dates import Dates
from fedloom.data.gathering import LARGEST, Dialect, TextGatherer, gatherer, of_names
from fedloom.data.table import Table
from fedloom.data.texts import Texts
from fedloom.errors import DataError, UnknownName, require

if TYPE_CHECKING:
    import pandas as pd


def frame(
    data: pd.DataFrame,
    label: str,
    user: str | None = None,
    *,
    drop: str | Sequence[str] = (),
    categorical: str | Sequence[str] = (),
    numeric: str | Sequence[str] = (),
    dates: str | Sequence[str] = "auto",
    task: str = "auto",
    case: str = "ask",
    unlabelled: str = "error",
    window: int | None = None,
    step: int | None = None,
    name: str = "frame",
) -> Dataset:
    """Read examples from a pandas data frame.

    Numbers and truth values are numbers, ``datetime64`` columns are dates, and everything else is categorical. The
    arguments are those of :func:`fedloom.data.csv`.
    """
    require(hasattr(data, "columns") and hasattr(data, "iloc"), "data", "a pandas data frame", type(data).__name__)
    names = list(map(str, data.columns))
    if len(set(names)) < len(names):
        raise DataError(f"the frame names the column {next(n for n in names if names.count(n) > 1)!r} twice")
    dialect = of_names(str(label), None if user is None else str(user), drop, categorical, numeric, dates, task)
    for argument, column in (("label", label), ("user", user), *(("drop", column) for column in dialect.skip),
                             *(("a column", column) for column in dialect.mentioned)):  # fmt: skip
        if column is not None and str(column) not in names:
            raise UnknownName(f"{argument} (a column of the frame)", column, names)
    if not len(data):
        raise DataError("the frame has no rows")
    series = {column: data[given] for column, given in zip(names, data.columns, strict=True)}
    kept = {column: values for column, values in series.items() if column not in dialect.skip}
    chosen = {column for column, values in kept.items() if str(values.dtype) == "category"}
    table = Table(
        name,
        {column: _column(values, column, dialect) for column, values in kept.items()},
        frozenset(dialect.numeric),
        frozenset(dialect.categorical | chosen),
        {column: ("dropped" if column in dialect.skip else "", _example(values)) for column, values in series.items()},
    )
    return table.dataset(
        str(label), None if user is None else str(user), window, step, task=task, case=case, unlabelled=unlabelled
    )


def _example(series: pd.Series) -> str:
    held = series[series.notna()]
    return str(held.iloc[0]) if len(held) else ""


def _column(series: pd.Series, name: str, dialect: Dialect) -> np.ndarray | Texts | Dates:
    """Return one column: numbers with NaN, dates, or texts with -1, where a cell is missing."""
    kind = "" if name in dialect.labels | dialect.categorical or str(series.dtype) == "category" else series.dtype.kind
    if kind == "M":
        return _dates(series)
    if kind and kind in "mc":
        raise DataError(f"column {name} of the frame holds {series.dtype}: drop it, or make it numbers")
    if kind and kind in "biuf":
        numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
        if (np.abs(numbers) > LARGEST).any():
            row = int(np.argmax(np.abs(numbers) > LARGEST))
            raise DataError(f"row {row}, column {name} of the frame: {numbers[row]} is too large a number")
        return numbers
    held = ~series.isna().to_numpy()
    cells = np.full(len(series), "", object)
    cells[held] = series[held].astype(str).to_numpy(dtype=object)
    gathered = gatherer("the frame", name, cells.tolist(), dialect) if kind else TextGatherer("the frame", name)
    gathered.add(cells.tolist(), 1)
    return gathered.done()


def _dates(series: pd.Series) -> Dates:
    """Return a column of ``datetime64`` values; times with a zone are converted to UTC."""
    plain = series.dt.tz_convert("UTC").dt.tz_localize(None) if getattr(series.dtype, "tz", None) else series
    ticks = plain.to_numpy().astype("datetime64[us]")
    hours = np.where(np.isnat(ticks), np.nan, ticks.astype(np.int64) / (3600 * 10**6))
    has_time = bool((np.nan_to_num(hours) % 24 != 0).any())
    return Dates(hours // 24, hours % 24 if has_time else np.full(len(hours), np.nan), True, has_time)
