"""Recovery: how a server begins with what it finds in its folder. Nothing is deleted here."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedloom.errors import CheckpointError, require, warn
from fedloom.federation.arithmetic import Arithmetic
from fedloom.federation.closing import kept, written
from fedloom.federation.disk import Disk
from fedloom.federation.journal import Journal, Opened, Received
from fedloom.federation.uploads import PART
from fedloom.runs.result import HISTORY, MODEL

JOURNAL, FILES, LOG = "journal.sqlite", "files", "log.jsonl"
OF_A_RUN = (JOURNAL, f"{JOURNAL}-wal", f"{JOURNAL}-shm", FILES, LOG, HISTORY, MODEL, "figure.png", "experiment.toml")
"""The files of a run in a server's folder."""
LOST = "restore the journal, or say --new-run, which keeps the old files and begins anew"


def check_journal_is_there(folder: Path) -> None:
    """Raise a :class:`CheckpointError` if a folder holds the states of a run, but no journal."""
    journal = folder / JOURNAL
    lost = not journal.is_file() or journal.stat().st_size == 0
    states = (folder / FILES).is_dir() and any((folder / FILES).iterdir())
    if lost and (states or (folder / HISTORY).is_file()):
        how = "is empty" if journal.is_file() else "is missing"
        raise CheckpointError(f"{folder} holds the states of a run, but its {JOURNAL} {how}: {LOST}")


def put_aside(folder: Path) -> None:
    """Move the files of a run that cannot go on into a folder beside the new run, and say so.

    Raises:
        ArgumentError: if the run can go on.
    """
    found = [folder / name for name in OF_A_RUN if (folder / name).exists()]
    if not found:
        return
    require(not can_go_on(folder), "--new-run", f"left out: {folder} holds a run that can go on", "given")
    aside = next(place for n in range(1, 10**6) if not (place := folder / f"before-{n}").exists())
    aside.mkdir()
    for path in found:
        path.replace(aside / path.name)
    warn(f"a new run begins in {folder}; the files of the run before are in {aside}")


def can_go_on(folder: Path) -> bool:
    """True if the journal in a folder is sound, a run has begun in it, and its newest state is sound."""
    if not (folder / JOURNAL).is_file():
        return False
    try:
        journal = Journal.reading(folder / JOURNAL)
    except (CheckpointError, sqlite3.Error):
        return False
    try:
        about, last = journal.about(), journal.last()
    finally:
        journal.close()
    return bool(about) and Disk(folder / FILES).holds(last.state if last else about["state"])


def begin_run(
    journal: Journal, disk: Disk, arithmetic: Arithmetic, run: str, identity: Mapping[str, Any], now: float
) -> None:
    """Write the beginning of a run into an empty journal.

    Raises:
        CheckpointError: if there are files which no run begins with, so that the journal was lost.
    """
    begins_with = kept(disk, arithmetic, arithmetic.first)
    others = [name for name in disk.names() if name not in begins_with and not name.endswith((PART, ".new"))]
    if others:
        text = f"{disk.folder} holds the states of a run, of which the journal knows nothing"
        raise CheckpointError(f"{text}: {LOST}")
    journal.begin(run, identity, *begins_with, now)


def repair_model(disk: Disk, arithmetic: Arithmetic, state: Any, file: str) -> None:
    """Write the model that participants fetch again if it is missing or damaged."""
    if disk.holds(file):
        return
    if written(disk, arithmetic.model_schema, arithmetic.sent(state)) != file:
        disk.checked(file)  # says what is wrong with it
    warn(f"{disk.folder / file}, the model for participants, was missing or damaged: it is written again")


def sound_updates(
    journal: Journal, disk: Disk, opened: Opened, received: Mapping[str, Received]
) -> dict[str, Received]:
    """Return the updates of a round under way without those that are damaged; their participants are asked again."""
    sound = {name: update for name, update in received.items() if disk.holds(update.file)}
    for name in received.keys() - sound.keys():
        warn(f"{disk.folder / received[name].file}, an update of {name}, is missing or damaged: {name} is asked again")
        journal.forget(opened, name)
    return sound
