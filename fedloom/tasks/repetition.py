"""Repetition: the longest stretch of a sequence that is one part again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int


@dataclass(frozen=True)
class Repetition:
    """A stretch of a sequence in which every value equals the one ``period`` places further on, as far as there is one.

    Attributes:
        start, end: where the stretch begins, and the place after its end.
        period: the length of the part.
    """

    start: int
    end: int
    period: int

    @property
    def count(self) -> int:
        """How often the whole part occurs."""
        return (self.end - self.start) // self.period


def repetitions(values: Int[np.ndarray, " n"], least: int) -> list[Repetition]:
    """Return all stretches in which a part occurs at least so often, none of them within a longer one of its period.

    >>> repetitions(np.array([9, 1, 2, 1, 2, 1, 2, 7]), least=3)
    [Repetition(start=1, end=7, period=2)]
    """
    found = []
    for period in _periods(values, least):
        equal = np.concatenate([[False], values[period:] == values[:-period], [False]])
        starts, ends = (np.flatnonzero(equal[1:] > equal[:-1]), np.flatnonzero(equal[1:] < equal[:-1]))
        long = ends - starts >= (least - 1) * period
        found += [Repetition(int(s), int(e) + period, period) for s, e in zip(starts[long], ends[long], strict=True)]
    return found


def _periods(values: Int[np.ndarray, " n"], least: int) -> list[int]:
    """Return the distances at which a value that repeats may come again: those of the value and its next equal."""
    order = np.argsort(values, kind="stable")
    same = values[order][1:] == values[order][:-1]
    distances = np.unique(np.diff(order)[same])
    return [int(d) for d in distances if d * least <= len(values)]
