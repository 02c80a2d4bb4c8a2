"""Stopping: when a run has done enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedloom.data.partition.partition import counted
from fedloom.direction import metric_of
from fedloom.errors import number, whole
from fedloom.runs.history import History


@dataclass(frozen=True)
class Stop:
    """When a run has done enough; the first rule that holds stops it.

    Arguments:
        rounds: after this many rounds.
        seconds: after this many seconds.
        target: when the monitored measure reaches this.
        patience: when the monitored measure has not improved for this many rounds.
        monitor: the measure that target and patience look at.
        until_bytes: when so many bytes have been sent, both ways.
        until_clock: when so many seconds have passed by the simulated clock.

    >>> Stop(rounds=3).reason(History(({"round": 3},)))
    'did 3 rounds'
    """

    rounds: int = 100
    seconds: float | None = None
    target: float | None = None
    patience: int | None = None
    monitor: str = "test_accuracy"
    until_bytes: float | None = None
    until_clock: float | None = None

    def __post_init__(self) -> None:
        whole("rounds", self.rounds, 1)
        for name in ("seconds", "until_bytes", "until_clock"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), "above 0", lambda value: value > 0)
        if self.patience is not None:
            whole("patience", self.patience, 1)
        if self.target is not None:
            share = metric_of(self.monitor) == "accuracy"
            need = "between 0 and 1, such as 0.97" if share else "a number"
            number("target", self.target, need, lambda target: not share or 0 <= target <= 1)

    def reason(self, history: History) -> str | None:
        """Why the run should stop now, or ``None`` if it should go on."""
        row = history.rows[-1]
        if self.target is not None:
            value = history.last(self.monitor)
            if value >= self.target if history.rises(self.monitor) else value <= self.target:
                return f"{self.monitor.replace('_', ' ')} reached {self.target:g}"
        if row["round"] >= self.rounds:
            return f"did {counted(int(row['round']), 'round', 'rounds')}"
        if self.seconds is not None and row["seconds"] >= self.seconds:
            return f"took {self.seconds:g} seconds"
        if self.until_bytes is not None and row["bytes_up"] + row["bytes_down"] >= self.until_bytes:
            return f"sent {self.until_bytes:,.0f} bytes"
        if self.until_clock is not None and row["clock"] >= self.until_clock:
            return f"took {self.until_clock:g} seconds by the clock"
        if self.patience is not None:
            best = int(np.argmax(history.column(self.monitor) == history.best(self.monitor)))
            if row["round"] - history.rows[best]["round"] >= self.patience:
                return f"{self.monitor.replace('_', ' ')} has not improved for {self.patience:,} rounds"
        return None
