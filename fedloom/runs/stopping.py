"""Stopping: when a run has done enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedloom.errors import require
from fedloom.runs.history import History, lower_is_better


@dataclass(frozen=True)
class Stop:
    """When a run has done enough; the first rule that holds stops it.

    Arguments:
        rounds: after this many rounds.
        seconds: after this many seconds.
        target: when the monitored measure reaches this.
        patience: when the monitored measure has not improved for this many rounds.
        monitor: the measure that target and patience look at.

    >>> Stop(rounds=3).reason(History(({"round": 3},)))
    'did 3 rounds'
    """

    rounds: int = 100
    seconds: float | None = None
    target: float | None = None
    patience: int | None = None
    monitor: str = "test_accuracy"

    def __post_init__(self) -> None:
        require(self.rounds >= 1, "rounds", "at least 1", self.rounds)
        require(self.seconds is None or self.seconds > 0, "seconds", "above 0", self.seconds)
        require(self.patience is None or self.patience >= 1, "patience", "at least 1", self.patience)

    def reason(self, history: History) -> str | None:
        """Why the run should stop now, or ``None`` if it should go on."""
        row = history.rows[-1]
        if self.target is not None:
            value = history.last(self.monitor)
            if value <= self.target if lower_is_better(self.monitor) else value >= self.target:
                return f"{self.monitor.replace('_', ' ')} reached {self.target:g}"
        if row["round"] >= self.rounds:
            return f"did {self.rounds:,} rounds"
        if self.seconds is not None and row["seconds"] >= self.seconds:
            return f"took {self.seconds:g} seconds"
        if self.patience is not None:
            best = int(np.argmax(history.column(self.monitor) == history.best(self.monitor)))
            if row["round"] - history.rows[best]["round"] >= self.patience:
                return f"{self.monitor.replace('_', ' ')} has not improved for {self.patience:,} rounds"
        return None
