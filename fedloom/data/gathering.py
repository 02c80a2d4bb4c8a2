"""Gathering: how each column of a file is read, and the column as it grows block by block."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fedloom.data.cells import GROUPED, HEXADECIMAL, SYMBOLS, NumberFormat, are_mostly, held, is_missing
from fedloom.data.dates import DateFormat, Dates, Moment, Unclear, recognise
from fedloom.data.texts import Texts
from fedloom.errors import DataError, require

LARGEST = 1e30  # a number beyond which squares, and float32, overflow
ORDERS = ("day-first", "month-first")
PADDED = re.compile(r"0\d+", re.ASCII)
NOTHING = Moment(float("nan"), float("nan"))


@dataclass(frozen=True)
class Dialect:
    """How a file is to be read.

    Arguments:
        labels: columns to read as texts whatever they hold: the classes and the users.
        categorical: features to read as texts.
        numeric: columns to read as numbers.
        skip: columns to leave out.
        dates: ``auto``, ``none`` or the columns to read as dates; and perhaps ``day-first`` or ``month-first``.
        delimiter: the character between cells; ``None``: the one that the header has most of.
        decimal: the character before the decimals of a number.
        thousands: the character between groups of three digits; empty: none.
    """

    labels: set[str]
    categorical: set[str]
    numeric: set[str]
    skip: set[str]
    dates: set[str]
    delimiter: str | None = None
    decimal: str = "."
    thousands: str = ""

    @property
    def dated(self) -> set[str]:
        """The columns that the user calls dates."""
        return self.dates - {"auto", "none", *ORDERS}

    @property
    def mentioned(self) -> set[str]:
        """Every column that the user names."""
        return self.labels | self.categorical | self.numeric | self.skip | self.dated

    @property
    def order(self) -> str:
        """Which of day and month comes first between slashes; empty: not said."""
        return next((order for order in ORDERS if order in self.dates), "")

    def may_be_dates(self, name: str) -> bool:
        """Return whether a column is read as dates if it looks like them."""
        if name in self.numeric or "none" in self.dates:
            return False
        return name in self.dated or not self.dated


def of_names(
    label: str,
    user: str | None,
    drop: str | Sequence[str],
    categorical: str | Sequence[str],
    numeric: str | Sequence[str],
    dates: str | Sequence[str],
    task: str,
) -> Dialect:
    """Return the dialect in which these columns are read so, after a check that no two arguments disagree."""
    skip, texts, numbers, dated = ({given} if isinstance(given, str) else set(given)
                                   for given in (drop, categorical, numeric, dates))  # fmt: skip
    labels = {label} | ({user} if user is not None else set())
    require(not skip & labels, "drop", "columns other than the label and the user", sorted(skip & labels))
    used = skip & (texts | numbers)
    require(not used, "drop", "columns that are not called categorical or numeric too", sorted(used))
    require(not texts & numbers, "numeric", "columns that are not categorical too", sorted(texts & numbers))
    require("none" not in dated or len(dated) == 1, "dates", "none alone", sorted(dated))
    used = dated & (skip | texts | numbers | labels)
    require(not used, "dates", "columns that no other option names", sorted(used))
    if task == "regression":
        numbers, labels = numbers | {label}, labels - {label}
    return Dialect(labels, texts, numbers, skip, dated)


class Gatherer(Protocol):
    """A column that grows block by block."""

    name: str

    @property
    def how(self) -> str:
        """How its cells are written, if not plainly."""

    def add(self, cells: Sequence[str], start: int) -> None:
        """Take the next block of cells, whose first one stands in row ``start``."""

    def done(self) -> np.ndarray | Texts | Dates:
        """Return the whole column."""


def gatherer(source: str, name: str, cells: Sequence[str], dialect: Dialect) -> Gatherer:
    """Return what gathers a column, as its first cells show."""
    if name in dialect.labels | dialect.categorical:
        return TextGatherer(source, name)
    where = f"column {name} of {source}"
    if dialect.may_be_dates(name):
        try:
            if date := recognise(cells, dialect.order):
                return DateGatherer(source, name, date)
        except Unclear as error:
            raise DataError(f"{where} holds {error} (or --drop {name}, --categorical {name})") from error
    if name in dialect.dated:
        raise DataError(f"{where} holds no dates that are known, but {_first(cells)!r}: leave {name} out of --dates")
    form = _number_format(where, name, cells, dialect)
    return NumberGatherer(source, name, form) if form else TextGatherer(source, name)


def _number_format(where: str, name: str, cells: Sequence[str], dialect: Dialect) -> NumberFormat | None:
    """Return how most of the cells write numbers, or ``None`` if they hold texts."""
    given = held(cells)
    plain = NumberFormat(dialect.decimal, dialect.thousands)
    options = "--drop {0}, --categorical {0} or --numeric {0}".format(name)  # noqa: UP032
    for form in (plain, *(NumberFormat(dialect.decimal, dialect.thousands, symbol) for symbol in SYMBOLS)):
        if given and not are_mostly(sum(map(form.fits, given)), given):
            continue
        padded = next((cell for cell in given if PADDED.fullmatch(cell)), None)
        if padded and name not in dialect.numeric:
            raise DataError(f"{where} holds {padded!r}, a code rather than a number: say {options}")
        return form
    if name in dialect.numeric:
        return plain
    if offer := _separators(given, dialect.decimal):
        raise DataError(
            f"{where} holds numbers such as {given[0]!r}: say {offer}, or call the column categorical "
            f"(--categorical {name})"
        )
    signs = [cell.strip("+-0123456789.,' ") for cell in given if any(symbol in cell for symbol in SYMBOLS)]
    if are_mostly(sum(sign in SYMBOLS for sign in signs), given):
        raise DataError(
            f"{where} holds numbers with different signs, {' and '.join(sorted(set(signs) & set(SYMBOLS)))}: convert "
            f"them to one unit, or say --drop {name} or --categorical {name}"
        )
    if are_mostly(sum(HEXADECIMAL.fullmatch(cell) is not None for cell in given), given):
        raise DataError(
            f"{where} holds hexadecimal numbers such as {given[0]!r}, which look like identifiers: say --user {name}, "
            f"--drop {name} or --categorical {name}"
        )
    return None


def _separators(given: Sequence[str], decimal: str) -> str:
    """Return the options that would make numbers of cells with commas, points or spaces; nothing if none would."""
    numbers = [cell.strip(SYMBOLS + " ") for cell in given]
    other = NumberFormat("," if decimal == "." else ".")
    groups = [match["sign"] for match in map(GROUPED.fullmatch, numbers) if match]
    if not are_mostly(sum(bool(GROUPED.fullmatch(cell)) or other.fits(cell) for cell in numbers), given):
        return ""
    offers = [f"--decimal {other.decimal!r} if decimals follow it"] if any(map(other.fits, numbers)) else []
    if groups:
        offers.append(f"--thousands {groups[0]!r} if it stands between groups of three digits")
    return " or ".join(offers)


def _first(cells: Sequence[str]) -> str:
    return next(iter(held(cells)), "")


@dataclass
class TextGatherer:
    """A column of texts: each different text has a number."""

    source: str
    name: str
    blocks: list[np.ndarray] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)

    @property
    def how(self) -> str:
        """How its cells are written, if not plainly."""
        return ""

    def add(self, cells: Sequence[str], start: int) -> None:  # noqa: ARG002
        """Take the next block of cells."""
        self.blocks.append(np.array([self._code(cell.strip()) for cell in cells], np.int32))

    def done(self) -> Texts:
        """Return the whole column."""
        return Texts(np.concatenate(self.blocks), list(self.codes))

    def _code(self, cell: str) -> int:
        return self.codes.setdefault(cell, len(self.codes)) if cell else -1


@dataclass
class NumberGatherer:
    """A column of numbers."""

    source: str
    name: str
    form: NumberFormat
    blocks: list[np.ndarray] = field(default_factory=list)

    @property
    def how(self) -> str:
        """How the numbers are written, if not plainly."""
        return self.form.symbol

    def add(self, cells: Sequence[str], start: int) -> None:
        """Take the next block of cells, whose first one stands in row ``start``."""
        numbers = self._quickly(cells)
        if numbers is None:
            numbers = np.array([self._number(cell, start + i) for i, cell in enumerate(cells)])
        wrong = np.flatnonzero(np.abs(numbers) > LARGEST)
        if len(wrong):
            raise DataError(
                f"row {start + wrong[0]}, column {self.name} of {self.source}: {cells[wrong[0]]} is too large a number"
            )
        self.blocks.append(numbers)

    def done(self) -> np.ndarray:
        """Return the whole column."""
        return np.concatenate(self.blocks)

    def _quickly(self, cells: Sequence[str]) -> np.ndarray | None:
        """Return the numbers of cells that all hold plain ones; Python also takes 1_000 for a number."""
        if self.form != NumberFormat() or "_" in "".join(cells):
            return None
        try:
            return np.array(list(map(float, cells)))
        except ValueError:
            return None

    def _number(self, cell: str, row: int) -> float:
        if is_missing(cell):
            return np.nan
        try:
            return self.form.parse(cell)
        except ValueError:
            kind = f"number with {self.form.symbol}" if self.form.symbol else "number"
            raise DataError(
                f"row {row}, column {self.name} of {self.source}: {cell!r} is not a {kind}, although the column is "
                f"read as numbers: correct it, or say --categorical {self.name}"
            ) from None


@dataclass
class DateGatherer:
    """A column of dates."""

    source: str
    name: str
    form: DateFormat
    blocks: list[np.ndarray] = field(default_factory=list)
    known: dict[str, Moment] = field(default_factory=dict)

    @property
    def how(self) -> str:
        """How its cells are written, if not plainly."""
        return ""

    def add(self, cells: Sequence[str], start: int) -> None:
        """Take the next block of cells, whose first one stands in row ``start``."""
        self.blocks.append(np.array([self._moment(cell, start + i) for i, cell in enumerate(cells)]))

    def done(self) -> Dates:
        """Return the whole column."""
        days, hours = np.concatenate(self.blocks).T
        return Dates(days, hours, self.form.has_date, self.form.has_time)

    def _moment(self, cell: str, row: int) -> Moment:
        if cell not in self.known:
            try:
                self.known[cell] = NOTHING if is_missing(cell) else self.form.parse(cell)
            except ValueError:
                raise DataError(
                    f"row {row}, column {self.name} of {self.source}: {cell!r} is no date or time as in most of the "
                    f"column: correct it, or say --categorical {self.name}"
                ) from None
        return self.known[cell]
