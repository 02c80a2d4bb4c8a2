"""Record: what a run's folder says about the run, apart from its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fedloom.errors import CheckpointError
from fedloom.runs.history import History, from_rows

RUNNING, FINISHED, INTERRUPTED, DIVERGED = "running", "finished", "interrupted", "diverged"
"""How a run stands. A run that was killed is still ``running`` in its folder."""


@dataclass(frozen=True)
class Record:
    """What a run's folder says about the run, apart from its arrays.

    The checkpoint holds the record and the arrays in one file. ``history.json`` holds a copy for other programs.

    Args:
        label: the name in tables and figures.
        history: what was measured.
        round: the round of the stored model. The last row of the history may be older.
        status: ``running``, ``finished``, ``interrupted`` or ``diverged``.
        stopped: why the run stopped; empty while it runs.
        models: ``one`` if the stored model is everybody's, ``each`` if there is one for each client, ``shared parts``
            if the layers of one client are stored elsewhere.
        clients: the number of clients.
        settings: the settings that decide what the history holds, such as ``every``.
        identity: what makes the run this run: data, task, algorithm, clock, seed.
    """

    label: str
    history: History
    round: int
    status: str = RUNNING
    stopped: str = ""
    models: str = "one"
    clients: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    identity: Mapping[str, Any] = field(default_factory=dict)

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
