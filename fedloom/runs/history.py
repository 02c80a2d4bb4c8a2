"""History: what a run measured, round by round."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fedloom.errors import UnknownName, choose

Row = Mapping[str, float]
AGAINST = {"rounds": "round", "bytes": "bytes", "seconds": "seconds", "steps": "steps", "clock": "clock"}
"""What a measure can be told against → the column it is."""


@dataclass(frozen=True)
class History:
    """What a run measured: one row for each evaluation.

    Every row has ``round``, ``seconds``, ``steps`` (local steps so far), ``bytes_up`` (what all clients together sent
    so far), ``bytes_down`` (what a server sent them), ``update_norm`` (of the last round) and, for each part of the
    data that was evaluated, its metrics: ``test_accuracy``, ``train_loss`` and so on.

    >>> history = History(({"round": 1, "test_accuracy": 0.5}, {"round": 2, "test_accuracy": 0.9}))
    >>> history.best("test_accuracy"), history.reached("test_accuracy", 0.7)
    (0.9, 2)
    """

    rows: tuple[Row, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, row: Row) -> History:
        return History((*self.rows, row))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what was measured."""
        return tuple(self.rows[-1]) if self.rows else ()

    def column(self, name: str) -> np.ndarray:
        """One measure over all rows; NaN where a row does not have it."""
        if name not in self.columns:
            raise UnknownName("column", name, self.columns)
        return np.array([row.get(name, math.nan) for row in self.rows], float)

    def along(self, axis: str) -> np.ndarray:
        """Where the rows stand along an axis: rounds, bytes (both ways), seconds, steps or clock."""
        name = choose("against", axis, AGAINST)
        return self.column("bytes_up") + self.column("bytes_down") if name == "bytes" else self.column(name)

    def so_far(self, name: str) -> np.ndarray:
        """The best of a measure up to each row: the smallest of a loss, the largest of anything else."""
        pick = np.fmin if lower_is_better(name) else np.fmax
        return np.asarray(pick.accumulate(self.column(name)))

    def best(self, name: str) -> float:
        """The best of a measure over all rows."""
        return float(self.so_far(name)[-1])

    def last(self, name: str) -> float:
        """The measure in the last row."""
        return float(self.column(name)[-1])

    def reached(self, name: str, target: float) -> int | None:
        """The first round in which a measure reached the target, or ``None``."""
        values = self.column(name)
        hit = values <= target if lower_is_better(name) else values >= target
        return int(self.column("round")[np.argmax(hit)]) if hit.any() else None

    def crossing(self, name: str, target: float, against: str = "rounds") -> float | None:
        """Where the best of a measure so far crosses the target, between two evaluations by linear interpolation;
        ``None`` if it does not. This is how McMahan et al. (2017, section 3) count rounds.

        Arguments:
            name: of the measure.
            target: what it is to reach.
            against: in what to tell it: rounds, bytes, seconds, steps, or clock where there was one.

        >>> history = History(({"round": 10, "steps": 50, "test_accuracy": 0.5},
        ...                    {"round": 20, "steps": 90, "test_accuracy": 0.9}))
        >>> history.crossing("test_accuracy", 0.7), history.crossing("test_accuracy", 0.7, "steps")
        (15.0, 70.0)
        """
        if self.reached(name, target) is None:
            return None
        sign = -1 if lower_is_better(name) else 1
        best, rounds = sign * self.so_far(name), self.along(against)
        i = int(np.argmax(best >= sign * target))
        if i == 0:
            return float(rounds[0])
        share = (sign * target - best[i - 1]) / (best[i] - best[i - 1])
        return float(rounds[i - 1] + share * (rounds[i] - rounds[i - 1]))


def lower_is_better(name: str) -> bool:
    """Whether a smaller value of this measure is better.

    >>> lower_is_better("test_loss"), lower_is_better("test_error"), lower_is_better("test_accuracy")
    (True, True, False)
    """
    return name.endswith(("loss", "error"))


def from_rows(rows: Iterable[Row]) -> History:
    """A history from rows that were read from a file."""
    return History(tuple(dict(row) for row in rows))
