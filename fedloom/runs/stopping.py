"""Stopping: when a run has done enough."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.data.partition.partition import counted
from fedloom.direction import metric_of
from fedloom.errors import choose, number, require, whole
from fedloom.measures import label
from fedloom.runs.history import History


@dataclass(frozen=True)
class Stop:
    """When a run has done enough; the first rule that holds stops it.

    Arguments:
        rounds: after this many rounds.
        seconds: after this many seconds.
        target: when the monitored measure reaches this.
        patience: when the monitored measure has not improved for this many rounds.
        monitor: the column of the history that target and patience look at; by default the accuracy on validation
            data, or on test data where there is no validation data.
        until_bytes: when so many bytes have been sent, both ways.
        until_clock: when so many seconds have passed by the simulated clock.
        keep: the model of which round is kept: ``best``, of the monitored column, or ``last``; by default the best if
            there is patience, which goes on for some rounds after it, and else the last.

    >>> Stop(rounds=3).reason(History(({"round": 3},)))
    'did 3 rounds'
    """

    rounds: int = 100
    seconds: float | None = None
    target: float | None = None
    patience: int | None = None
    monitor: str | None = None
    until_bytes: float | None = None
    until_clock: float | None = None
    keep: str | None = None

    def __post_init__(self) -> None:
        whole("rounds", self.rounds, 1)
        require(self.rounds < 2**31 - 1, "rounds", "at most 2,147,483,646", self.rounds)
        for name in ("seconds", "until_bytes", "until_clock"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), "above 0", lambda value: value > 0)
        if self.patience is not None:
            whole("patience", self.patience, 1)
        if self.keep is not None:
            choose("keep", self.keep, dict.fromkeys(("best", "last")))
        need = "left alone without a target, patience or keep best, which look at it"
        require(self.monitor is None or self.watches, "monitor", need, self.monitor)
        if self.target is not None:
            share = self.monitor is not None and metric_of(self.monitor) == "accuracy"
            need = "between 0 and 1, such as 0.97" if share else "a number"
            number("target", self.target, need, lambda target: not share or 0 <= target <= 1)

    @property
    def watches(self) -> bool:
        """True if a column of the history is monitored."""
        return self.target is not None or self.patience is not None or self.keep == "best"

    @property
    def keeps_best(self) -> bool:
        """True if the model of the best round is kept, not that of the last."""
        return self.keep == "best" or (self.keep is None and self.patience is not None)

    def require_last(self, where: str) -> None:
        """Raise an :class:`ArgumentError` if the best model is to be kept where only the last one can be.

        Args:
            where: how the run is computed, such as ``over MPI``.
        """
        need = f"last {where}, where models of earlier rounds are not kept (with patience it is best unless given)"
        require(not self.keeps_best, "keep", need, self.keep or "best")

    def reason(self, history: History) -> str | None:
        """Why the run should stop now, or ``None`` if it should go on."""
        row, monitor = history.rows[-1], self.monitor or ""
        if self.target is not None:
            value = history.last(monitor)
            if value >= self.target if history.rises(monitor) else value <= self.target:
                return f"{label(monitor)} reached {self.target:g}"
        if row["round"] >= self.rounds:
            return f"did {counted(int(row['round']), 'round', 'rounds')}"
        if self.seconds is not None and row["seconds"] >= self.seconds:
            return f"took {self.seconds:g} seconds"
        if self.until_bytes is not None and row["bytes_up"] + row["bytes_down"] >= self.until_bytes:
            return f"sent {self.until_bytes:,.0f} bytes"
        if self.until_clock is not None and row["clock"] >= self.until_clock:
            return f"took {self.until_clock:g} seconds by the clock"
        if self.patience is not None:
            best = history.best_row(monitor) or history.rows[0]
            if row["round"] - best["round"] >= self.patience:
                return f"{label(monitor)} has not improved for {self.patience:,} rounds"
        return None
