"""Record: what a run's folder says about the run, apart from its arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from fedloom.errors import CheckpointError
from fedloom.runs.history import History, Row, from_rows
from fedloom.runs.ownership import SHARED

RUNNING, FINISHED, INTERRUPTED, DIVERGED = "running", "finished", "interrupted", "diverged"
"""How a run stands. A run that was killed is still ``running`` in its folder."""


@dataclass(frozen=True)
class Record:
    """What a run's folder says about the run, apart from its arrays.

    The checkpoint holds the record and the arrays in one file. ``history.json`` holds a copy for other programs.

    Args:
        label: the name in tables and figures.
        history: what was measured.
        round: the round of the stored state. The last row of the history may be older.
        status: ``running``, ``finished``, ``interrupted`` or ``diverged``.
        stopped: why the run stopped; empty while it runs.
        models: whose model is stored; see :mod:`fedloom.runs.ownership`.
        own_layers: the names of the model's arrays that are each client's own.
        clients: the number of clients.
        monitor: the column of the history that a target, patience or the best round looks at; empty if none does.
        keeps_best: whether the stored model is that of the round in which this column is best.
        monitor: the column of the history that a target, patience or the best round looks at; empty if none does.
        keeps_best: whether the stored model is that of the round in which this column is best.
        settings: the settings that decide what the history holds, such as ``every``.
        identity: what makes the run this run: data, task, algorithm, clock, seed.
    """

    label: str
    history: History
    round: int
    status: str = RUNNING
    stopped: str = ""
    models: str = SHARED
    own_layers: Sequence[str] = ()
    clients: int = 0
    monitor: str = ""
    keeps_best: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    identity: Mapping[str, Any] = field(default_factory=dict)

    @property
    def best(self) -> Row | None:
        """The row of the round whose model is kept because the monitored column is best there; ``None`` if none is."""
        return self.history.best_row(self.monitor) if self.keeps_best else None

    @property
    def model_round(self) -> int:
        """The round of the stored model, which is older than the stored state if the best model is kept."""
        return int(self.best["round"]) if self.best else self.round

    @property
    def has_ended(self) -> bool:
        """True if the run finished or diverged, so that there is nothing to resume."""
        return self.status in (FINISHED, DIVERGED)

    def as_json(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "history"}
        rows = [dict(row) for row in self.history.rows]
        return {**values, "better": dict(self.history.better), "rows": rows}


def from_json(values: Mapping[str, Any]) -> Record:
    """Return the record that :meth:`Record.as_json` gave.

    Raises:
        CheckpointError: if an entry is missing.
    """
    names = {f.name for f in fields(Record)} - {"history"}
    lacking = sorted((names | {"better", "rows"}) - values.keys())
    if lacking:
        raise CheckpointError(f"it lacks {', '.join(lacking)}: another version of fedloom wrote it")
    return Record(history=from_rows(values["rows"], values["better"]), **{name: values[name] for name in names})
