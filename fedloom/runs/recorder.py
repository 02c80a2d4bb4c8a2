"""Recorder: the rows of a run's history, and what follows from each: go on, stop, or the numbers are not finite."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fedloom.runs.history import History, Row
from fedloom.runs.record import DIVERGED, FINISHED, RUNNING
from fedloom.runs.stopping import Stop


@dataclass(frozen=True)
class Decision:
    """What follows from a row of the history.

    Args:
        status: ``running``, ``finished`` or ``diverged``.
        reason: why the run stops; empty while it is running.
        shown: the history with the row, which a run that diverged does not keep.
    """

    status: str
    reason: str
    shown: History

    @property
    def has_ended(self) -> bool:
        """True if the run stops."""
        return self.status != RUNNING

    @property
    def has_diverged(self) -> bool:
        """True if a number of the row is not finite."""
        return self.status == DIVERGED


@dataclass(frozen=True)
class Recorder:
    """The history of a run and its rules for stopping.

    Args:
        history: the rows so far.
        stop: the rules, with the column of the history that they look at.

    >>> recorder = Recorder(History(), Stop(rounds=2))
    >>> recorder, decision = recorder.add({"round": 1, "test_loss": 0.5})
    >>> decision.status
    'running'
    >>> recorder.add({"round": 2, "test_loss": 0.4})[1].reason
    'did 2 rounds'
    >>> recorder, decision = recorder.add({"round": 2, "test_loss": math.inf})
    >>> decision.status, decision.reason, len(recorder.history)
    ('diverged', 'test loss is inf after round 2', 1)
    """

    history: History
    stop: Stop

    @property
    def last(self) -> Row | None:
        """The last row; ``None`` if there is none."""
        return self.history.rows[-1] if len(self.history) else None

    @property
    def round(self) -> int:
        """The round of the last row; 0 if there is none."""
        return int(self.last["round"]) if self.last else 0

    @property
    def best(self) -> Row | None:
        """The row of the round whose model is kept because it is the best; ``None`` if the last one is kept."""
        return self.history.best_row(self.stop.monitor) if self.stop.keeps_best and self.stop.monitor else None

    @property
    def last_is_best(self) -> bool:
        """True if the model of the last row is to be kept as the best so far."""
        return self.last is not None and self.best is self.last

    def decide(self) -> Decision:
        """Return whether the run goes on after the last row, as far as rules for stopping say."""
        reason = self.stop.reason(self.history) if len(self.history) else None
        return Decision(RUNNING if reason is None else FINISHED, reason or "", self.history)

    def add(self, row: Row, must_be_finite: bool = True) -> tuple[Recorder, Decision]:
        """Return the recorder with a row more, and what follows from it.

        Args:
            row: the new row.
            must_be_finite: True if a number that is not finite ends the run. The row is then left out.
        """
        longer = replace(self, history=self.history + row)
        name = nonfinite(row) if must_be_finite else None
        if name is None:
            return longer, longer.decide()
        reason = f"{name.replace('_', ' ')} is {row[name]} after round {int(row['round'])}"
        return self, Decision(DIVERGED, reason, longer.history)


def nonfinite(row: Row) -> str | None:
    """Return the first column of a row that is not finite; ``None`` if all are.

    >>> nonfinite({"round": 1, "update_norm": math.nan, "test_loss": math.inf}), nonfinite({"round": 1})
    ('update_norm', None)
    """
    return next((name for name, value in row.items() if not math.isfinite(value)), None)
