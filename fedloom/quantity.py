"""Quantity: a number of every worker's machine or link, in every round: fixed, drawn at random, or a trace."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedloom.errors import ArgumentError, require

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True)
class Fixed:
    """The same for everybody, always."""

    value: float

    def of(self, workers: int, round: int, seed: Sequence[int]) -> Float[np.ndarray, " K"]:  # noqa: ARG002
        """Each worker's in a round."""
        return np.full(workers, self.value)


@dataclass(frozen=True)
class Lognormal:
    """median · exp(spread · z + flicker · z'), with a z of every worker's and a z' of every worker's round."""

    median: float
    spread: float
    flicker: float = 0.0

    def of(self, workers: int, round: int, seed: Sequence[int]) -> Float[np.ndarray, " K"]:
        """Each worker's in a round."""
        own = np.random.default_rng([*seed, 0]).standard_normal(workers)
        now = np.random.default_rng([*seed, 1, round]).standard_normal(workers) if self.flicker else 0.0
        return self.median * np.exp(self.spread * own + self.flicker * now)


@dataclass(frozen=True)
class Uniform:
    """Between two numbers; every worker keeps its own."""

    low: float
    high: float

    def of(self, workers: int, round: int, seed: Sequence[int]) -> Float[np.ndarray, " K"]:  # noqa: ARG002
        """Each worker's in a round."""
        return np.random.default_rng([*seed, 0]).uniform(self.low, self.high, workers)


@dataclass(frozen=True, eq=False)
class Trace:
    """What was measured: a row a round and a column a worker, each from the beginning again when they are used up."""

    values: Float[np.ndarray, "rounds workers"]

    def of(self, workers: int, round: int, seed: Sequence[int]) -> Float[np.ndarray, " K"]:  # noqa: ARG002
        """Each worker's in a round."""
        row = self.values[round % len(self.values)]
        return row[np.arange(workers) % len(row)]

    def __repr__(self) -> str:
        return f"Trace({'×'.join(map(str, self.values.shape))}, {zlib.crc32(self.values.tobytes()):08x})"


Quantity = Fixed | Lognormal | Uniform | Trace
WIDEST = 10  # spread of a logarithm
DRAWN = {"lognormal": Lognormal, "uniform": Uniform}
FORMS = (
    "a number, lognormal:MEDIAN:SPREAD[:FLICKER], uniform:LOW:HIGH, or a CSV file (a row a round, a column a worker)"
)


def quantity(name: str, given: float | str | Quantity, least: float = 0.0) -> Quantity:
    """A quantity from a number or a text.

    Arguments:
        name: what it is called in errors.
        given: a number; ``lognormal:0.01:0.5`` (median and spread over workers, and a third number for how it flickers
            from round to round); ``uniform:0.01:0.05``; or a CSV file with a row a round and a column a worker.
        least: what none of its numbers may be below.

    >>> quantity("compute", "uniform:1:2").of(3, round=0, seed=[0]).round(2).tolist()
    [1.64, 1.27, 1.04]
    >>> quantity("compute", "-1")
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: compute must be at least 0, but is -1.0
    """
    if isinstance(given, Trace | Lognormal | Uniform | Fixed):
        return given
    if isinstance(given, str) and given.endswith(".csv"):
        return Trace(_checked(name, _read(name, Path(given)), least))
    kind, *numbers = given.split(":") if isinstance(given, str) else ("", given)
    if kind not in DRAWN and not numbers:
        kind, numbers = "", [kind]
    try:
        values = [float(number) for number in numbers]
        made: Quantity = DRAWN[kind](*values) if kind else Fixed(*values)
    except (KeyError, TypeError, ValueError) as error:
        raise ArgumentError(name, FORMS, given) from error
    good = np.array(values[:2] if isinstance(made, Uniform) else values[:1])
    _checked(name, good, least)
    finite = isinstance(made, Fixed) or bool(np.isfinite(values).all())
    require(finite, name, "made of finite numbers", given)
    require(not isinstance(made, Uniform) or made.low <= made.high, name, "uniform:LOW:HIGH with LOW below HIGH", given)
    good_spread = not isinstance(made, Lognormal) or (min(values[1:]) >= 0 and sum(values[1:]) <= WIDEST)
    require(good_spread, name, f"one whose spread is between 0 and {WIDEST}", given)
    return made


def _checked(name: str, values: np.ndarray, least: float) -> np.ndarray:
    """The same, if they are numbers that are large enough."""
    wrong = values[~(values >= least)]
    require(not len(wrong), name, f"at least {least:g}", float(wrong[0]) if len(wrong) else None)
    return values


def _read(name: str, path: Path) -> Float[np.ndarray, "rounds workers"]:
    """The numbers of a CSV file."""
    require(path.is_file(), name, "a CSV file that exists", str(path))
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    require(
        bool(rows) and len({len(row) for row in rows}) == 1,
        name,
        f"a table: {path} has rows of unequal length",
        len(rows),
    )
    try:
        return np.array(rows, float)
    except ValueError as error:
        raise ArgumentError(name, f"numbers alone in {path} ({error})", rows[0][:3]) from error
