"""Dates: recognise how a column writes dates and times, and turn them into features."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedloom.data.cells import are_mostly, held

if TYPE_CHECKING:
    from jaxtyping import Float

EPOCH = date(1970, 1, 1).toordinal()
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
LONG = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
        "december")  # fmt: skip
YEARS = range(1900, 2101)  # of eight digits without separators, which may be another number
TIME = r"(?P<H>\d{1,2}):(?P<M>\d\d)(:(?P<S>\d\d([.,]\d+)?))?(\s*(?P<half>[AaPp])\.?[Mm]\.?)?"
ZONE = r"\s*(?P<zone>Z|UTC|GMT|[+-]\d\d(:?\d\d)?)?"
STYLES = {
    "year-month-day": r"(?P<y>\d{4})(?P<sep>[-/.])(?P<m>\d{1,2})(?P=sep)(?P<d>\d{1,2})",
    "eight digits": r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)",
    "year-month": r"(?P<y>\d{4})-(?P<m>\d\d)",
    "day name": r"(?P<d>\d{1,2})(st|nd|rd|th)?[-\s./]*(?P<name>[A-Za-z]{3,9})[-\s.,/]*(?P<y>\d{4})",
    "name day": r"(?P<name>[A-Za-z]{3,9})[-\s.]*(?P<d>\d{1,2})(st|nd|rd|th)?[-\s.,]+(?P<y>\d{4})",
    "points": r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})",
    "slashes": r"(?P<d>\d{1,2})(?P<sep>[-/])(?P<m>\d{1,2})(?P=sep)(?P<y>\d{4})",
}
"""How dates are written. In ``slashes`` the first number may be the month."""
PATTERNS = {name: re.compile(rf"{style}([T\s,]+{TIME}{ZONE})?", re.ASCII) for name, style in STYLES.items()}
PATTERNS["time"] = re.compile(TIME, re.ASCII)
SHORT = re.compile(rf"\d{{1,2}}([-/.])\d{{1,2}}\1\d\d(\s+{TIME})?", re.ASCII)


class Moment(NamedTuple):
    """The days since 1970-01-01 and the hour of the day; NaN where a cell says nothing of it."""

    day: float
    hour: float


@dataclass(frozen=True)
class DateFormat:
    """How a column writes dates and times.

    Arguments:
        style: a key of ``PATTERNS``.
        has_time: whether cells say the time of the day.
        month_first: whether the month stands before the day, between slashes.

    >>> DateFormat("slashes", month_first=True).parse("1/31/1970")
    Moment(day=30.0, hour=nan)
    >>> DateFormat("year-month-day", has_time=True).parse("1970-01-02T18:30+02:00")
    Moment(day=1.0, hour=16.5)
    """

    style: str
    has_time: bool = False
    month_first: bool = False

    @property
    def has_date(self) -> bool:
        """Whether cells say the day."""
        return self.style != "time"

    def parse(self, cell: str) -> Moment:
        """Return the moment in a cell; a time with a zone is converted to UTC.

        Raises:
            ValueError: the cell is not written in this way, or there is no such day or time.
        """
        match = PATTERNS[self.style].fullmatch(cell.strip())
        if match is None:
            raise ValueError(cell)
        part = match.groupdict()
        day, hour = (_day(part, self.month_first) if self.has_date else np.nan), _hour(part)
        if part["H"] is not None and not self.has_time:
            raise ValueError(cell)
        if part.get("zone") and part["zone"][0] in "+-":
            total = 24 * day + hour - _offset(part["zone"])
            day, hour = total // 24, total % 24
        return Moment(float(day), hour)


def _day(part: dict[str, str | None], month_first: bool) -> int:
    month, day = part.get("m"), part.get("d") or "1"
    if part.get("name"):
        name = str(part["name"]).lower()
        month = str(1 + (LONG.index(name) if name in LONG else MONTHS.index(name.replace("sept", "sep"))))
    elif month_first:
        month, day = day, str(month)
    return date(int(str(part["y"])), int(str(month)), int(day)).toordinal() - EPOCH


def _hour(part: dict[str, str | None]) -> float:
    if part["H"] is None:
        return float("nan")
    hour, minute, second = int(part["H"]), int(str(part["M"])), float((part["S"] or "0").replace(",", "."))
    half = (part["half"] or "").lower()
    if minute > 59 or second >= 61 or hour > 23 or (half and not 1 <= hour <= 12):
        raise ValueError("no time of the day")
    hour = hour % 12 + 12 * (half == "p") if half else hour
    return hour + minute / 60 + second / 3600


def _offset(zone: str) -> float:
    digits = zone[1:].replace(":", "")
    return (-1 if zone[0] == "-" else 1) * (int(digits[:2]) + int(digits[2:] or 0) / 60)


class Unclear(ValueError):
    """Dates whose day and month could be either way, or whose years have two digits: says what to do."""


def recognise(cells: Sequence[str], order: str = "") -> DateFormat | None:
    """Return how most of some cells write dates, or ``None`` if they hold no dates.

    Arguments:
        cells: the first cells of a column.
        order: ``day-first`` or ``month-first``, of dates with slashes; empty: as some day above 12 shows.

    Raises:
        Unclear: the cells hold dates that can be read in two ways.

    >>> recognise(["2024-01-31 10:00", "2024-02-01 11:30"])
    DateFormat(style='year-month-day', has_time=True, month_first=False)
    """
    given = held(cells)
    for style, pattern in PATTERNS.items():
        found = [match.groupdict() for match in map(pattern.fullmatch, given) if match]
        if not found or not are_mostly(len(found), given):
            continue
        if style == "eight digits" and (len(found) < len(given) or not all(_is_likely(cell) for cell in given)):
            continue
        if "name" in found[0] and not all(str(part["name"]).lower()[:3] in MONTHS for part in found):
            continue
        has_time = any(part["H"] is not None for part in found)
        known = DateFormat(style, has_time)
        return replace(known, month_first=_month_first(found, order)) if style == "slashes" else known
    short = next((cell for cell in given if SHORT.fullmatch(cell)), None)
    if short and are_mostly(sum(SHORT.fullmatch(cell) is not None for cell in given), given):
        raise Unclear(f"dates such as {short!r}, whose year has two digits: write it with four")
    return None


def _is_likely(cell: str) -> bool:
    try:
        day = DateFormat("eight digits").parse(cell).day
    except ValueError:
        return False
    return date.fromordinal(int(day) + EPOCH).year in YEARS


def _month_first(found: Sequence[dict[str, str | None]], order: str) -> bool:
    if order:
        return order == "month-first"
    first, second = (max(int(str(part[name])) for part in found) for name in "dm")
    if (first > 12) == (second > 12):
        part = found[0]
        shown = f"{part['d']}{part['sep']}{part['m']}{part['sep']}{part['y']}"
        why = "in which no day is above 12" if first <= 12 else "some with the day first, some with the month first"
        raise Unclear(f"dates such as {shown}, {why}: say --dates day-first or --dates month-first")
    return second > 12


@dataclass(frozen=True)
class Dates:
    """A column of dates, of times of the day, or of both.

    Arguments:
        days: days since 1970-01-01; NaN where a cell is missing or says only a time.
        hours: the hour of the day, from 0 to 24; NaN where a cell is missing or says only a day.
        has_date, has_time: what the column says.
    """

    days: Float[np.ndarray, " rows"]
    hours: Float[np.ndarray, " rows"]
    has_date: bool
    has_time: bool

    def __len__(self) -> int:
        return len(self.days)

    @property
    def missing(self) -> int:
        """How many cells say nothing."""
        return int((np.isnan(self.days) & np.isnan(self.hours)).sum())

    @property
    def read_as(self) -> str:
        """How the column is read, and the features that it becomes."""
        kind = " and ".join(["date"] * self.has_date + ["time"] * self.has_time)
        parts = ["days since 1970-01-01", "weekday"] * self.has_date + ["hour"] * self.has_time
        return f"{kind} ({', '.join(parts)})"

    def features(self, name: str) -> Iterator[tuple[str, Float[np.ndarray, " rows"], bool]]:
        """Yield the features: what each is called, its values, and whether it is a number (else 0 or 1).

        A date gives the days since 1970-01-01, with the time as their fraction, and a feature for each weekday. A time
        gives the sine and the cosine of its angle on a dial of 24 hours, so that 23:59 is near 0:00.

        >>> moment = Dates(np.array([0.0]), np.array([6.0]), True, True)
        >>> [(name, values.item()) for name, values, _ in moment.features("t") if values.item() > 1e-9]
        [('t (days)', 0.25), ('t=Thursday', 1.0), ('t (hour, sine)', 1.0)]
        """
        if self.has_date:
            yield f"{name} (days)", self.days + np.nan_to_num(self.hours) / 24, True
            weekday = np.where(np.isnan(self.days), -1, np.nan_to_num(self.days + 3) % 7)
            for number, day in enumerate(WEEKDAYS):
                yield f"{name}={day}", (weekday == number).astype(np.float64), False
        if self.has_time:
            angle = 2 * np.pi * self.hours / 24
            yield f"{name} (hour, sine)", np.sin(angle).round(6), True
            yield f"{name} (hour, cosine)", np.cos(angle).round(6), True
