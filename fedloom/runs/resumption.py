"""Resumption: whether the run in a folder goes on as it is asked to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedloom.errors import CheckpointError, require
from fedloom.measures import MEAN, parse
from fedloom.runs.history import History
from fedloom.runs.record import Record
from fedloom.runs.settings import Settings


def check_resumption(
    folder: Path, record: Record, label: str, settings: Settings, allows_fewer_rounds: bool = False
) -> None:
    """Raise unless the run in a folder can go on under a label and with settings.

    Rules for stopping may change. What the folder already holds may not: the label, the rounds that are evaluated, the
    parts of the data on which they are, whether users are measured, and the rounds that are done.

    Args:
        folder: the folder that holds the run.
        record: what the folder says about the run.
        label: the label that is asked for.
        settings: the settings that are asked for, with the column that is monitored.
        allows_fewer_rounds: whether the run may have done more rounds than are asked for.

    Raises:
        ArgumentError: if more rounds are done than are asked for.
        CheckpointError: if the label or a setting is another one.
    """
    there, here = comparable(record.label, record.settings), comparable(label, settings.recorded())
    differs = ", ".join(f"{name} = {there.get(name)!r} there, {here[name]!r} here"
                        for name in here if there.get(name) != here[name])  # fmt: skip
    if differs:
        text = f"{folder} holds {record.label!r} at round {record.round:,}, with other settings ({differs})"
        raise CheckpointError(f"{text}: go on with those, or choose another folder")
    monitor, rows = settings.stop.monitor, record.history
    if settings.stop.watches and len(rows) and monitor not in rows.columns:
        text = f"{folder} holds rounds in which {monitor}, which is monitored, was not measured"
        raise CheckpointError(f"{text}: monitor one of {', '.join(ranked(rows))}, or choose another folder")
    had_best = record.keeps_best and record.monitor == monitor
    if settings.stop.keeps_best and len(rows) and not had_best and rows.best_row(monitor or "") is not rows.rows[-1]:
        kept = f"the model that is best by {record.monitor}" if record.keeps_best else "the last model"
        text = f"{folder} holds rounds of which it keeps {kept}, so the one that is best by {monitor} is lost"
        raise CheckpointError(f'{text}: go on with --keep last (in Python keep="last"), or choose another folder')
    done = f"at least {record.round:,}, which are done already in {folder} (choose another folder to begin anew)"
    require(allows_fewer_rounds or settings.stop.rounds >= record.round, "rounds", done, settings.stop.rounds)


def ranked(history: History) -> list[str]:
    """Return the columns of a history that can be monitored."""
    return [name for name in history.columns if (one := parse(name)) and one.models != MEAN]


def comparable(label: str, recorded: Any) -> dict[str, Any]:
    """Return a label and settings as values that are equal if they mean the same."""
    evaluate = sorted(recorded.get("evaluate", ()))
    return {"label": label, **recorded, "evaluate": ",".join(evaluate)}
