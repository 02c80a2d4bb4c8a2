"""CSV: a file of rows with a label column and, for federated data, a user column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from csv import Error as CsvError
from csv import reader
from dataclasses import replace
from itertools import islice
from pathlib import Path

from fedloom.data.dataset import Dataset
from fedloom.data.files import OPENERS, find, opened
from fedloom.data.gathering import Dialect, Gatherer, gatherer, of_names
from fedloom.data.table import Table
from fedloom.errors import DataError, UnknownName, require

DELIMITERS = ",;\t|"
BLOCK = 20_000  # rows in memory as text at a time

Rows = list[list[str]]


def csv(
    path: str | Path,
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
    delimiter: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    window: int | None = None,
    step: int | None = None,
    folder: str | Path | None = None,
) -> Dataset:
    """Read examples from a CSV file with a header, compressed (gz, xz, bz2) or not.

    A column holds dates or numbers if most of its first 20,000 cells do; anything else further down is then an error.
    Other columns are categorical: one feature for each text. Numbers are shifted and scaled by the mean and deviation
    of the training examples when clients are made, and missing ones (empty, ``?``, NaN, NA, null, none) filled with
    the mean. How each column was read is in ``read_as`` of the data set.

    Columns that look like row numbers or identifiers are refused: drop them, or list them under ``numeric`` or
    ``categorical``.

    Arguments:
        path: the file, here or in the data folder.
        label: the column that is predicted.
        user: the column that says whose a row is.
        drop: columns that are no features, such as a row's number; one without a name is called ``column 1``.
        categorical: features that are texts although they look like numbers, dates or identifiers.
        numeric: features that are numbers although they look like identifiers or codes.
        dates: ``auto``: all columns that hold dates or times; ``none``: no column; names: only these columns.
            ``day-first`` or ``month-first``, alone or among the names: which comes first in 01/02/2024.
        task: labels are classes (``classification``) or numbers (``regression``); ``auto``: classes, but numbers that
            do not look like classes are refused.
        case: texts that differ in capitals only are the ``same``, ``different``, or refused (``ask``).
        unlabelled: rows without a label are an ``error``, or ``skip`` them.
        delimiter: the character between cells; by default the one of , ; tab | that the header has most of.
        decimal: the character before the decimals of a number: a point or a comma.
        thousands: the character between groups of three digits; by default there is none.
        window, step: consecutive rows of one user as one example; see :meth:`fedloom.data.table.Table.dataset`.
        folder: the data folder.
    """
    require(delimiter is None or len(delimiter) == 1, "delimiter", "one character", delimiter)
    require(decimal in (".", ","), "decimal", "a point or a comma", decimal)
    require(thousands is None or (len(thousands) == 1 and thousands in ",.' "), "thousands",
            "a comma, a point, an apostrophe or a space", thousands)  # fmt: skip
    require(thousands != decimal, "thousands", "another character than the one before decimals", thousands)
    dialect = of_names(label, user, drop, categorical, numeric, dates, task)
    dialect = replace(dialect, delimiter=delimiter, decimal=decimal, thousands=thousands or "")
    return read(find(path, folder), dialect).dataset(
        label, user, window, step, task=task, case=case, unlabelled=unlabelled
    )


def read(path: Path, dialect: Dialect) -> Table:
    """Return the table in a CSV file."""
    name = path.name.removesuffix(path.suffix) if path.suffix.lower() in OPENERS else path.name
    with opened(path, "rt", bar=f"reading {path.name}") as file:
        header_line = file.readline()
        between = dialect.delimiter or max(DELIMITERS, key=header_line.count)
        header = [cell.strip() for cell in next(reader([header_line], delimiter=between), [])]
        header = _checked_header(path, header, dialect)
        columns: dict[str, Gatherer] = {}
        sources: dict[str, tuple[str, str]] = {}
        for start, rows in _blocks(path, reader(file, delimiter=between), len(header)):
            cells = dict(zip(header, zip(*rows, strict=True), strict=True))
            if not columns:
                columns = {n: gatherer(str(path), n, cells[n], dialect) for n in header if n not in dialect.skip}
                sources = {n: ("", _example(cells[n])) for n in header}
            for column in columns.values():
                column.add(cells[column.name], start)
    if not sources:
        raise DataError(f"{path} has a header and no rows")
    how = {n: (columns[n].how if n in columns else "dropped", example) for n, (_, example) in sources.items()}
    found = {name: column.done() for name, column in columns.items()}
    return Table(
        Path(name).stem, found, frozenset(dialect.numeric), frozenset(dialect.categorical), how, dialect.decimal
    )


def _example(cells: Sequence[str]) -> str:
    return next((cell.strip() for cell in cells if cell.strip()), "")


def _checked_header(path: Path, header: Sequence[str], dialect: Dialect) -> list[str]:
    """Return the names of the columns; one without a name is called by its place."""
    if not any(header):
        raise DataError(f"{path} is empty: its first line must name the columns")
    named = [name or f"column {place}" for place, name in enumerate(header, 1)]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise DataError(f"{path} names the column {twice[0]!r} twice")
    for name in sorted(dialect.mentioned):
        if name not in named:
            raise UnknownName(f"a column of {path}", name, named)
    return named


def _blocks(path: Path, lines: Iterator[list[str]], width: int) -> Iterator[tuple[int, Rows]]:
    """Yield blocks of rows that all have as many cells as the header, and the number of each block's first row."""
    start = 1
    while block := _some(path, lines, start):
        rows = [row for row in block if row]
        for i, row in enumerate(rows):
            if len(row) != width:
                raise DataError(f"row {start + i} of {path} has {len(row)} cells, but the header has {width}")
        if rows:
            yield start, rows
        start += len(rows)


def _some(path: Path, lines: Iterator[list[str]], start: int) -> Rows:
    try:
        return list(islice(lines, BLOCK))
    except CsvError as error:
        raise DataError(f"{path} cannot be read after row {start - 1} ({error}): is a quote not closed?") from error
