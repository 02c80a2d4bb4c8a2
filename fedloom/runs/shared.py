"""Shared: runs as trees of arrays, which the process that drives them sends to others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedloom.algorithms import Method, RoundState
from fedloom.runs.history import History
from fedloom.runs.ownership import owned, whose
from fedloom.runs.result import Run
from fedloom.runs.users import from_arrays


def packed(run: Run, state: RoundState) -> dict[str, Any]:
    """Return a run as a tree of arrays.

    Args:
        run: the run, without its folder and its clock, which only the driving process has.
        state: the state that the run ended with.
    """
    return {
        "label": run.label,
        "rows": [dict(row) for row in run.history.rows],
        "better": dict(run.history.better),
        "stopped": run.stopped,
        "status": run.status,
        "state": replace(state, optimizer=()),
        "users": run.users.arrays(),
        "best": None if run.best is None else dict(run.best),
        "monitor": run.monitor,
        "clients": run.clients,
    }


def unpacked(found: dict[str, Any], method: Method) -> Run:
    """Return the run that :func:`packed` has packed."""
    state = found["state"]
    return Run(
        found["label"], History(tuple(found["rows"]), found["better"]), state.variables, found["stopped"],
        found["status"], users=from_arrays(found["users"]), own=owned(method, state), best=found["best"],
        monitor=found["monitor"], **whose(method, state.variables, found["clients"]),
    )  # fmt: skip
