"""History: what a run measured, round by round."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fedloom.direction import BUILT_IN, Better, Directions, direction_of, require_direction
from fedloom.errors import UnknownName, choose

Row = Mapping[str, float]
AGAINST = {"rounds": "round", "bytes": "bytes", "seconds": "seconds", "steps": "steps", "clock": "clock"}
"""What a measure can be told against → the column it is."""


@dataclass(frozen=True)
class History:
    """What a run measured: one row for each evaluation.

    Every row has ``round``, ``seconds``, ``steps`` (local steps so far), ``bytes_up`` (what all clients together sent
    so far), ``bytes_down`` (what a server sent them), ``update_norm`` (of the last round) and, for each part of the
    data that was evaluated, its metrics: ``test_accuracy``, ``train_loss`` and so on are of the shared model. Where
    clients' models differ, ``own_test_accuracy`` is of each client's own model on its own data, and
    ``own_on_all_test_accuracy`` of each client's own model on everybody's: see :mod:`fedloom.measures`. Columns that
    begin with ``users_`` are means, quantiles and the worst tenth over a round's clients: see
    :mod:`fedloom.runs.users`.

    Arguments:
        rows: the evaluations.
        better: whether a higher or a lower value is better, for each metric; as the task declares it.

    >>> history = History(({"round": 1, "test_accuracy": 0.5}, {"round": 2, "test_accuracy": 0.9}))
    >>> history.best("test_accuracy"), history.reached("test_accuracy", 0.7)
    (0.9, 2)
    """

    rows: tuple[Row, ...] = ()
    better: Directions = field(default_factory=lambda: BUILT_IN)

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, row: Row) -> History:
        return replace(self, rows=(*self.rows, row))

    def direction(self, name: str) -> Better | None:
        """Return whether a higher or a lower value of a column is better; ``None`` if unknown, and for a cost."""
        return direction_of(name, self.better)

    def rises(self, name: str) -> bool:
        """Return whether a higher value of a column is better; an error if that is unknown, and for a cost."""
        return require_direction(name, self.better) == "higher"

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
        """Return the best value of a metric up to each row."""
        values = self.column(name)
        pick = np.fmax if self.rises(name) else np.fmin
        return np.asarray(pick.accumulate(values))

    def best(self, name: str) -> float:
        """Return the best value of a metric over all rows: the highest or the lowest, as the task declares."""
        return float(self.so_far(name)[-1])

    def best_row(self, name: str) -> Row | None:
        """Return the first row in which a metric is best; ``None`` if no row has a finite value of it."""
        values = self.column(name)
        signed = np.where(np.isfinite(values), values, math.nan) * (1 if self.rises(name) else -1)
        return self.rows[int(np.nanargmax(signed))] if np.isfinite(signed).any() else None

    def last(self, name: str) -> float:
        """The measure in the last row."""
        return float(self.column(name)[-1])

    def reached(self, name: str, target: float) -> int | None:
        """The first round in which a measure reached the target, or ``None``."""
        values, sign = self.column(name), 1 if self.rises(name) else -1
        hit = sign * values >= sign * target
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
        sign = 1 if self.rises(name) else -1
        best, rounds = sign * self.so_far(name), self.along(against)
        i = int(np.argmax(best >= sign * target))
        if i == 0:
            return float(rounds[0])
        share = (sign * target - best[i - 1]) / (best[i] - best[i - 1])
        return float(rounds[i - 1] + share * (rounds[i] - rounds[i - 1]))


def from_rows(rows: Iterable[Row], better: Directions | None = None) -> History:
    """Return the history of rows that were read from a file.

    Args:
        rows: the evaluations.
        better: the directions of the metrics; where a file has none, those of fedloom's own metrics.
    """
    return History(tuple(dict(row) for row in rows), BUILT_IN if better is None else better)
