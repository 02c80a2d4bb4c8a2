"""The journal: whatever is damaged in it is found when it is opened."""

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from fedloom.errors import CheckpointError
from fedloom.federation.journal import COLUMNS, Closed, Journal, Opened, Received, Refused


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small journal with a row in every table."""
    file = tmp_path / "journal.sqlite"
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA page_size = 512")
    connection.execute("VACUUM")
    connection.close()
    journal = Journal(file)
    journal.begin("r", {"lr": 0.1}, "state", "model", 1.0)
    for name in ("a", "b"):
        journal.join(name, 2.0)
    journal.decline("b")
    first, second = Opened(0, 0, ("a", "b"), 3.0), Opened(1, 0, ("a",), 5.0)
    journal.open(first)
    journal.receive(first, Received("a", "file", 9, 5, {"loss": 0.5}, {"count": 2.0}), 3.5)
    journal.refuse(Refused(3.6, 0, "b", "no"))
    journal.end(first, Closed(0, "state1", "model1", {"round": 1, "test_loss": 0.25}), ["a"], 4.0)
    journal.open(second)
    journal.receive(second, Received("a", "file2", 9, 5, {}, {}), 5.5)
    journal.close()
    return file


def contents(file: Path) -> list[Any]:
    """Everything that a journal says."""
    journal = Journal.reading(file)
    try:
        return [journal.about(), journal.members(), journal.opened(), journal.last(), journal.rows(),
                journal.counted(), journal.refusals(), journal.unfit(), journal.voids()]  # fmt: skip
    finally:
        journal.close()


def test_a_flipped_bit_never_changes_what_a_journal_says(file: Path) -> None:
    whole, good, found = file.read_bytes(), contents(file), 0
    used = [i for i, byte in enumerate(whole) if byte]
    for i in [*range(0, 100, 7), *random.Random(1).sample(used, 400)]:
        file.write_bytes(whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :])
        try:
            assert contents(file) == good, i  # a counter, or space that SQLite does not use
        except CheckpointError:
            found += 1
    assert found > 200


@pytest.mark.parametrize("table", sorted(COLUMNS.keys() - {"void_rounds"}))
def test_every_column_of_every_row_is_checked(file: Path, table: str) -> None:
    whole = file.read_bytes()
    for column in COLUMNS[table].split(", "):
        connection = sqlite3.connect(file, isolation_level=None)
        text = connection.execute(f"SELECT typeof({column}) FROM {table}").fetchone()[0] in ("text", "null")
        other = f"ifnull({column}, '') || 'x'" if text else f"{column} + 1"
        first = f"(SELECT min(rowid) FROM {table})"
        connection.execute(f"UPDATE OR REPLACE {table} SET {column} = {other} WHERE rowid = {first}")
        connection.close()
        with pytest.raises(CheckpointError, match=f"in its table {table} the row .* does not match its checksum"):
            Journal(file)
        file.write_bytes(whole)
    contents(file)


def test_a_journal_of_an_older_version_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "journal.sqlite")
    for table in COLUMNS:
        connection.execute(f"CREATE TABLE {table} (key TEXT)")
    connection.close()
    with pytest.raises(CheckpointError, match=r"an older version of fedloom wrote .*journal\.sqlite: end its run with"):
        Journal(tmp_path / "journal.sqlite")
