"""Journal: what a server must not forget, in SQLite. Every method is one transaction, on the disk when it returns.

Every row holds a SHA-256 of its other columns. All rows are checked when a journal is opened.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.errors import CheckpointError
from fedloom.federation.points import Reach, nothing

FORMAT = "fedloom journal 2"
TABLES = """
CREATE TABLE IF NOT EXISTS run (key TEXT PRIMARY KEY, value TEXT NOT NULL, sha256 TEXT) STRICT;
CREATE TABLE IF NOT EXISTS participants (
    name TEXT PRIMARY KEY, number INTEGER NOT NULL UNIQUE, counted INTEGER NOT NULL DEFAULT -1,
    rounds INTEGER NOT NULL DEFAULT 0, offences INTEGER NOT NULL DEFAULT 0, joined REAL NOT NULL, sha256 TEXT) STRICT;
CREATE TABLE IF NOT EXISTS rounds (
    round INTEGER NOT NULL, attempt INTEGER NOT NULL, outcome TEXT NOT NULL, cohort TEXT NOT NULL,
    began REAL NOT NULL, ended REAL, state TEXT, model TEXT, row TEXT, counted TEXT, sha256 TEXT,
    PRIMARY KEY (round, attempt)) STRICT;
CREATE TABLE IF NOT EXISTS updates (
    round INTEGER NOT NULL, attempt INTEGER NOT NULL, name TEXT NOT NULL, file TEXT NOT NULL, size INTEGER NOT NULL,
    examples INTEGER NOT NULL, readings TEXT NOT NULL, measures TEXT NOT NULL, time REAL NOT NULL, sha256 TEXT,
    PRIMARY KEY (round, attempt, name)) STRICT;
CREATE TABLE IF NOT EXISTS refusals (
    number INTEGER PRIMARY KEY, time REAL NOT NULL, round INTEGER NOT NULL, name TEXT NOT NULL, why TEXT NOT NULL,
    sha256 TEXT) STRICT;
CREATE TABLE IF NOT EXISTS unfit (name TEXT PRIMARY KEY, sha256 TEXT) STRICT;
CREATE TABLE IF NOT EXISTS void_rounds (
    time REAL NOT NULL, round INTEGER PRIMARY KEY, why TEXT NOT NULL, names TEXT NOT NULL, sha256 TEXT) STRICT;
"""
COLUMNS = {
    "run": "key, value",
    "participants": "name, number, counted, rounds, offences, joined",
    "rounds": "round, attempt, outcome, cohort, began, ended, state, model, row, counted",
    "updates": "round, attempt, name, file, size, examples, readings, measures, time",
    "refusals": "number, time, round, name, why",
    "unfit": "name",
    "void_rounds": "time, round, why, names",
}
"""Table → the columns that a row's checksum covers."""
ADVICE = "restore it from a copy, or say --new-run, which keeps the old files and begins anew"
MEMBER = "SELECT name, number, counted, rounds, offences FROM participants"
OPEN, CLOSED, VOID = "open", "closed", "void"


@dataclass(frozen=True)
class Member:
    """A participant as the journal knows it: its number, the last round that it counted in (-1: none), in how many it
    did, and how many of its updates were refused.
    """

    name: str
    number: int
    counted: int = -1
    rounds: int = 0
    offences: int = 0


STEPS = "steps"
"""The reading that is the number of optimiser steps of a participant that had no time for all."""


@dataclass(frozen=True)
class Received:
    """An update that counts, unless its round is given up.

    Args:
        name: of the participant.
        file: the file's name.
        size: the file's bytes.
        examples: the number of examples that it trained on.
        readings: what the weighting looks at; and :data:`STEPS`, if it had no time for all its steps.
        measures: sums over its own examples.
    """

    name: str
    file: str
    size: int
    examples: int
    readings: Mapping[str, float]
    measures: Mapping[str, float]


@dataclass(frozen=True)
class Opened:
    """A round that is under way."""

    round: int
    attempt: int
    cohort: tuple[str, ...]
    began: float


@dataclass(frozen=True)
class Closed:
    """A round that is over: the files of the state after it and of the model that is sent next, and its row."""

    round: int
    state: str
    model: str
    row: Mapping[str, float]


@dataclass(frozen=True)
class Refused:
    """An update that was refused."""

    time: float
    round: int
    name: str
    why: str


@dataclass(frozen=True)
class Void:
    """A round that is over without a new model: why, and the participants whose updates were in it."""

    time: float
    round: int
    why: str
    names: tuple[str, ...]


class Journal:
    """The journal of one run.

    Arguments:
        file: where it is, or an open connection to one.
        reach: told before and after every transaction.
    """

    def __init__(self, file: Path | sqlite3.Connection, reach: Reach = nothing) -> None:
        self.reach = reach
        if isinstance(file, sqlite3.Connection):
            self.connection = file
        else:
            self.connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=5)
        try:
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = FULL")
            self._check(file)
            with self._transaction("the journal is made"):
                for statement in TABLES.split(";"):
                    self.connection.execute(statement)
        except (sqlite3.DatabaseError, CheckpointError) as error:
            if not isinstance(file, sqlite3.Connection):
                self.connection.close()
            if isinstance(error, sqlite3.OperationalError | CheckpointError):
                raise
            text = f"{file} is no journal of a server, or is damaged ({error})"
            raise CheckpointError(f"{text}: {ADVICE}") from error

    def _check(self, file: object) -> None:
        """Raise a :class:`CheckpointError` if anything in the journal is not what was written."""
        try:
            self._check_rows(file)
        except (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError) as error:
            if "locked" in str(error):
                raise
            text = f"{file} is no journal of a server, or is damaged ({error})"
            raise CheckpointError(f"{text}: {ADVICE}") from error

    def _check_rows(self, file: object) -> None:
        known = {name for (name,) in self.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not known:
            return
        if lacking := sorted(COLUMNS.keys() - known):
            raise CheckpointError(f"{file} is damaged: it lacks the table {lacking[0]}: {ADVICE}")
        if "sha256" not in [row[1] for row in self.connection.execute("PRAGMA table_info(run)")]:
            raise CheckpointError(f"an older version of fedloom wrote {file}: end its run with that one, or {ADVICE}")
        [(found,), *_] = self.connection.execute("PRAGMA integrity_check(1)")
        if found != "ok":
            raise CheckpointError(f"{file} is damaged ({' '.join(found.split())}): {ADVICE}")
        for table, columns in COLUMNS.items():
            for *row, sha256 in self.connection.execute(f"SELECT {columns}, sha256 FROM {table}"):
                if sha256 != _digest(table, row):
                    text = f"{file} is damaged: in its table {table} the row {row[0]!r} does not match its checksum"
                    raise CheckpointError(f"{text}: {ADVICE}")

    def _sign(self, table: str, **where: object) -> None:
        """Write the checksums of the rows that were just written."""
        condition = " AND ".join(f"{name} = ?" for name in where)
        select = f"SELECT rowid, {COLUMNS[table]} FROM {table} WHERE {condition}"
        for rowid, *row in self.connection.execute(select, tuple(where.values())).fetchall():
            self.connection.execute(f"UPDATE {table} SET sha256 = ? WHERE rowid = ?", (_digest(table, row), rowid))

    @classmethod
    def reading(cls, file: Path) -> Journal:
        """A journal that is only read, also while a server writes it."""
        journal = cls.__new__(cls)
        journal.reach = nothing
        journal.connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5)
        try:
            journal._check(file)
        except (sqlite3.Error, CheckpointError):
            journal.close()
            raise
        return journal

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    @contextmanager
    def _transaction(self, name: str) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.reach(f"before {name}")
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        self.reach(f"after {name}")

    def begin(self, run: str, identity: Mapping[str, Any], state: str, model: str, now: float) -> None:
        """A new run, with the files of what it begins with."""
        told = {"format": FORMAT, "run": run, "identity": json.dumps(identity, sort_keys=True),
                "state": state, "model": model, "began": str(now)}  # fmt: skip
        with self._transaction("the run begins"):
            self.connection.executemany("INSERT INTO run (key, value) VALUES (?, ?)", list(told.items()))
            for key in told:
                self._sign("run", key=key)

    def about(self) -> dict[str, str]:
        """What was said when the run began; nothing if it has not."""
        return dict(self.connection.execute("SELECT key, value FROM run").fetchall())

    def join(self, name: str, now: float) -> Member:
        """A participant's row, with a number of its own from the first time on."""
        with self._transaction("a participant joins"):
            self.connection.execute(
                "INSERT OR IGNORE INTO participants (name, number, joined) "
                "VALUES (?, (SELECT COUNT(*) FROM participants), ?)",
                (name, now),
            )
            self._sign("participants", name=name)
        row = self.connection.execute(f"{MEMBER} WHERE name = ?", (name,)).fetchone()
        return Member(*row)

    def members(self) -> dict[str, Member]:
        """All participants that have ever come, by name."""
        rows = self.connection.execute(f"{MEMBER} ORDER BY number")
        return {row[0]: Member(*row) for row in rows}

    def open(self, round: Opened) -> None:
        """A round begins."""
        with self._transaction("a round opens"):
            self.connection.execute(
                "INSERT INTO rounds (round, attempt, outcome, cohort, began) VALUES (?, ?, ?, ?, ?)",
                (round.round, round.attempt, OPEN, json.dumps(round.cohort), round.began),
            )
            self._sign("rounds", round=round.round, attempt=round.attempt)

    def receive(self, round: Opened, update: Received, now: float) -> None:
        """An update counts in a round."""
        with self._transaction("an update counts"):
            self.connection.execute(
                f"INSERT INTO updates ({COLUMNS['updates']}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(round.round, round.attempt, update.name, update.file, update.size, update.examples),
                    *(json.dumps(dict(update.readings)), json.dumps(dict(update.measures)), now),
                ),
            )
            self._sign("updates", round=round.round, attempt=round.attempt, name=update.name)

    def forget(self, round: Opened, name: str) -> None:
        """An update of a round under way is lost, so that its participant is asked again."""
        with self._transaction("an update is forgotten"):
            self.connection.execute(
                "DELETE FROM updates WHERE round = ? AND attempt = ? AND name = ?", (round.round, round.attempt, name)
            )

    def refuse(self, refused: Refused) -> None:
        """An update is refused, and counts against its sender."""
        with self._transaction("an update is refused"):
            number = self.connection.execute(
                "INSERT INTO refusals (time, round, name, why) VALUES (?, ?, ?, ?)",
                (refused.time, refused.round, refused.name, refused.why),
            ).lastrowid
            self._sign("refusals", number=number)
            self.connection.execute("UPDATE participants SET offences = offences + 1 WHERE name = ?", (refused.name,))
            self._sign("participants", name=refused.name)

    def unfit(self) -> set[str]:
        """Who said that it takes no part, and has not come back."""
        return {name for (name,) in self.connection.execute("SELECT name FROM unfit")}

    def decline(self, name: str) -> None:
        """A participant takes no part."""
        with self._transaction("a participant takes no part"):
            self.connection.execute("INSERT OR IGNORE INTO unfit (name) VALUES (?)", (name,))
            self._sign("unfit", name=name)

    def accept(self, name: str) -> None:
        """One that took no part has come back."""
        with self._transaction("a participant is back"):
            self.connection.execute("DELETE FROM unfit WHERE name = ?", (name,))

    def pardon(self, name: str) -> bool:
        """Forget a participant's offences; whether there is such a one."""
        with self._transaction("a participant is pardoned"):
            done = self.connection.execute("UPDATE participants SET offences = 0 WHERE name = ?", (name,))
            self._sign("participants", name=name)
        return done.rowcount > 0

    def end(self, round: Opened, closed: Closed, counted: Sequence[str], now: float, void: Void | None = None) -> None:
        """Write that a round is over: with a new model, or void, with the model before it."""
        with self._transaction("a round closes"):
            self.connection.execute(
                "UPDATE rounds SET outcome = ?, ended = ?, state = ?, model = ?, row = ?, counted = ? "
                "WHERE round = ? AND attempt = ?",
                (
                    *(CLOSED, now, closed.state, closed.model, json.dumps(dict(closed.row)), json.dumps(counted)),
                    *(round.round, round.attempt),
                ),
            )
            self.connection.executemany(
                "UPDATE participants SET counted = ?, rounds = rounds + 1 WHERE name = ?",
                [(round.round, name) for name in counted],
            )
            self._sign("rounds", round=round.round, attempt=round.attempt)
            for name in counted:
                self._sign("participants", name=name)
            if void is not None:
                self.connection.execute(
                    "INSERT INTO void_rounds (time, round, why, names) VALUES (?, ?, ?, ?)",
                    (void.time, void.round, void.why, json.dumps(void.names)),
                )
                self._sign("void_rounds", round=void.round)
            self.connection.execute("DELETE FROM updates WHERE round < ?", (round.round,))

    def void(self, round: Opened, now: float) -> None:
        """A round is given up; the model stays as it is."""
        with self._transaction("a round is void"):
            self.connection.execute(
                "UPDATE rounds SET outcome = ?, ended = ? WHERE round = ? AND attempt = ?",
                (VOID, now, round.round, round.attempt),
            )
            self._sign("rounds", round=round.round, attempt=round.attempt)

    def last(self) -> Closed | None:
        """The last round that is over."""
        row = self.connection.execute(
            "SELECT round, state, model, row FROM rounds WHERE outcome = ? ORDER BY round DESC LIMIT 1", (CLOSED,)
        ).fetchone()
        return None if row is None else Closed(row[0], row[1], row[2], json.loads(row[3]))

    def opened(self) -> tuple[Opened, dict[str, Received]] | None:
        """The round that is under way, and the updates that it has."""
        row = self.connection.execute(
            "SELECT round, attempt, cohort, began FROM rounds WHERE outcome = ?", (OPEN,)
        ).fetchone()
        if row is None:
            return None
        opened = Opened(row[0], row[1], tuple(json.loads(row[2])), row[3])
        rows = self.connection.execute(
            "SELECT name, file, size, examples, readings, measures FROM updates WHERE round = ? AND attempt = ?",
            (opened.round, opened.attempt),
        )
        found = {r[0]: Received(r[0], r[1], r[2], r[3], json.loads(r[4]), json.loads(r[5])) for r in rows}
        return opened, found

    def attempts(self, round: int) -> int:
        """How often a round has begun."""
        found: int = self.connection.execute("SELECT COUNT(*) FROM rounds WHERE round = ?", (round,)).fetchone()[0]
        return found

    def voided(self) -> int:
        """How many rounds have been given up."""
        found: int = self.connection.execute("SELECT COUNT(*) FROM rounds WHERE outcome = ?", (VOID,)).fetchone()[0]
        return found

    def rows(self) -> list[dict[str, float]]:
        """What was measured, round by round."""
        found = self.connection.execute("SELECT row FROM rounds WHERE outcome = ? ORDER BY round", (CLOSED,))
        return [json.loads(row[0]) for row in found]

    def counted(self) -> list[list[str]]:
        """Whose updates counted, round by round."""
        found = self.connection.execute("SELECT counted FROM rounds WHERE outcome = ? ORDER BY round", (CLOSED,))
        return [json.loads(row[0]) for row in found]

    def voids(self, most: int = 100) -> list[Void]:
        """Return the last rounds that ended without a new model, the newest first."""
        select = f"SELECT {COLUMNS['void_rounds']} FROM void_rounds ORDER BY round DESC LIMIT ?"
        found = self.connection.execute(select, (most,))
        return [Void(time, round, why, tuple(json.loads(names))) for time, round, why, names in found]

    def refusals(self, most: int = 100) -> list[Refused]:
        """The last updates that were refused, the newest first."""
        found = self.connection.execute(
            "SELECT time, round, name, why FROM refusals ORDER BY number DESC LIMIT ?", (most,)
        )
        return [Refused(*row) for row in found]


def _digest(table: str, row: Sequence[object]) -> str:
    """Return the checksum of a row."""
    return hashlib.sha256(json.dumps([table, *row]).encode()).hexdigest()
