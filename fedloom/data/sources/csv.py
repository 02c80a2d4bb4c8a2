"""CSV: a file of rows with a label column and, for federated data, a user column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from csv import Error as CsvError
from csv import reader
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.files import OPENERS, find, opened
from fedloom.data.table import Table, Texts
from fedloom.errors import DataError, UnknownName, require

MISSING = frozenset({"", "?", "nan"})
"""Cells, in small letters, that hold nothing."""
NO_NUMBER = MISSING | {"na", "n/a", "null", "none"}
"""The same for numbers: in a column of texts these may be texts."""
LARGEST = 1e30  # a number beyond which squares, and float32, overflow
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
    delimiter: str | None = None,
    decimal: str = ".",
    window: int | None = None,
    step: int | None = None,
    folder: str | Path | None = None,
) -> Dataset:
    """Examples from a CSV file with a header, compressed (gz, xz, bz2) or not, read a block at a time.

    A column is numeric if most of its first cells are numbers; text further down in it is then an error. Other columns
    are categorical: one feature a text. Numbers are shifted and scaled by the training examples' mean and deviation
    when clients are made, and missing ones (empty, ``?``, NaN, NA, null, none) filled with the mean.

    Arguments:
        path: the file, here or in the data folder.
        label: the column that holds the class.
        user: the column that says whose a row is.
        drop: columns that are no features, such as a row's number.
        categorical: columns that hold texts though they look like numbers.
        delimiter: what stands between cells; by default whichever of , ; tab | the header has most of.
        decimal: what stands before the decimals of a number: a point or a comma.
        window, step: consecutive rows of one user as one example; see :meth:`fedloom.data.table.Table.dataset`.
        folder: the data folder.
    """
    dropped, texts = ({given} if isinstance(given, str) else set(given) for given in (drop, categorical))
    named = {label} | ({user} if user is not None else set())
    require(not dropped & named, "drop", "columns other than the label and the user", sorted(dropped & named))
    require(delimiter is None or len(delimiter) == 1, "delimiter", "one character", delimiter)
    require(decimal in (".", ","), "decimal", "a point or a comma", decimal)
    dialect = Dialect(texts | named, dropped, delimiter, decimal)
    return read(find(path, folder), dialect).dataset(label, user, window, step)


@dataclass(frozen=True)
class Dialect:
    """How a file is to be read.

    Arguments:
        texts: columns to take as texts whatever they hold.
        skip: columns to leave out.
        delimiter: what stands between cells; ``None``: whichever the header has most of.
        decimal: what stands before the decimals of a number.
    """

    texts: set[str]
    skip: set[str]
    delimiter: str | None = None
    decimal: str = "."


def read(path: Path, dialect: Dialect) -> Table:
    """The table in a CSV file."""
    name = path.name.removesuffix(path.suffix) if path.suffix.lower() in OPENERS else path.name
    with opened(path, "rt", bar=f"reading {path.name}") as file:
        header_line = file.readline()
        between = dialect.delimiter or max(DELIMITERS, key=header_line.count)
        header = [cell.strip() for cell in next(reader([header_line], delimiter=between), [])]
        _check_header(path, header, dialect.texts | dialect.skip)
        columns: dict[str, Gatherer] = {}
        for start, rows in _blocks(path, reader(file, delimiter=between), len(header)):
            cells = dict(zip(header, zip(*rows, strict=True), strict=True))
            if not columns:
                columns = {n: _gatherer(path, n, cells[n], dialect) for n in header if n not in dialect.skip}
            for column in columns.values():
                column.add(cells[column.name], start)
    if not columns:
        raise DataError(f"{path} has a header and no rows")
    return Table(Path(name).stem, {name: column.done() for name, column in columns.items()})


def _gatherer(path: Path, name: str, cells: Sequence[str], dialect: Dialect) -> Gatherer:
    """A column of numbers or texts, whichever its first cells are; numbers with a comma are not taken for texts."""
    text = name in dialect.texts or not _numeric(cells, dialect.decimal)
    if text and name not in dialect.texts and _numeric(cells, "," if dialect.decimal == "." else "."):
        found = next(cell for cell in cells if cell.strip().lower() not in NO_NUMBER)
        raise DataError(
            f"column {name} of {path} holds numbers such as {found!r}: say which character stands before decimals "
            "(decimal), or call the column categorical"
        )
    return Gatherer(path, name, text, dialect.decimal)


@dataclass
class Gatherer:
    """A column as it grows, block by block."""

    path: Path
    name: str
    text: bool
    decimal: str = "."
    blocks: list[np.ndarray] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)

    def add(self, cells: Sequence[str], start: int) -> None:
        """The next block of cells; the first of them stands in row ``start``."""
        if self.text:
            self.blocks.append(np.array([self._code(cell.strip()) for cell in cells], np.int32))
            return
        parse = float if self.decimal == "." else partial(number, decimal=self.decimal)
        try:
            numbers = np.array(list(map(parse, cells)))
        except ValueError:
            numbers = np.array([self._number(c, start + i) for i, c in enumerate(cells)])
        wrong = np.flatnonzero(np.abs(numbers) > LARGEST)
        if len(wrong):
            raise DataError(
                f"row {start + wrong[0]}, column {self.name} of {self.path}: {cells[wrong[0]]} is too large a number"
            )
        self.blocks.append(numbers)

    def done(self) -> np.ndarray | Texts:
        """The whole column."""
        values = np.concatenate(self.blocks)
        return Texts(values, list(self.codes)) if self.text else values

    def _code(self, cell: str) -> int:
        return -1 if cell.lower() in MISSING else self.codes.setdefault(cell, len(self.codes))

    def _number(self, cell: str, row: int) -> float:
        if cell.strip().lower() in NO_NUMBER:
            return np.nan
        try:
            return number(cell, self.decimal)
        except ValueError:
            raise DataError(
                f"row {row}, column {self.name} of {self.path}: {cell!r} is not a number, as most of the column is: "
                "correct it, or call the column categorical"
            ) from None


def _check_header(path: Path, header: Sequence[str], needed: set[str]) -> None:
    if not any(header):
        raise DataError(f"{path} is empty: its first line must name the columns")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(f"{path} names the column {twice[0]!r} twice")
    for name in sorted(needed):
        if name not in header:
            raise UnknownName(f"a column of {path}", name, header)


def _blocks(path: Path, lines: Iterator[list[str]], width: int) -> Iterator[tuple[int, Rows]]:
    """Blocks of rows that all have as many cells as the header, and the number of each block's first row."""
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


def _numeric(cells: Sequence[str], decimal: str) -> bool:
    """Whether most of the cells that hold something hold numbers."""
    held = [cell for cell in cells if cell.strip().lower() not in NO_NUMBER]
    return 2 * sum(_is_number(cell, decimal) for cell in held) > len(held) or not held


def number(cell: str, decimal: str) -> float:
    """The number in a cell. Where decimals follow a comma, a point is no part of a number: 1.234 may be a thousand.

    >>> number("1,5", decimal=",")
    1.5
    """
    if decimal != "." and "." in cell:
        raise ValueError(cell)
    return float(cell.replace(decimal, "."))


def _is_number(cell: str, decimal: str) -> bool:
    try:
        number(cell, decimal)
    except ValueError:
        return False
    return True
