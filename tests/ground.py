"""Ground: the server of :mod:`weather` on a real folder and a real journal, in fine weather but for one blow."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from weather import Weather, World, database

from fedloom.federation.disk import Disk

CALM, ROUNDS = Weather(delay=0.01), 2
Blow = Callable[[str], None]
"""Told of every moment between two changes of the disk; may raise."""


class Ground(Disk):
    """A real folder. A crash loses nothing of it but what was not yet written; power is never cut here."""

    def crash(self, draw: object) -> None:
        """Nothing is lost."""


class Grounded(World):
    """A server on a real folder, whose disk and journal one blow hits, and its participants.

    Arguments:
        folder: where it is.
        blow: what may happen at every moment.
        lies: (number, round) of the updates that are a lie.
    """

    def __init__(
        self, folder: Path, blow: Blow, ground: type[Ground] = Ground, lies: frozenset[tuple[int, int]] = frozenset()
    ) -> None:
        self.blow, self.folder, self.hit = blow, folder, False
        super().__init__(0, CALM, rounds=ROUNDS, lies=lies)
        self.disk = ground(folder / "files", self.moment)  # type: ignore[assignment]
        self._connect()

    def moment(self, name: str) -> None:
        """What happens at a moment of the server's."""
        try:
            self.blow(name)
        except BaseException:
            self.hit = True
            raise

    def _connect(self) -> None:
        self.connection.close()
        self.connection = database(self, self.folder / "journal.sqlite")

    def fate(self, name: str) -> None:
        if name.startswith(("before ", "after ")):  # of the journal; participants' disks are in memory
            self.moment(name)

    def doom(self) -> None:
        super().doom()
        self._connect()

    def note(self, event: str, **fields: object) -> None:
        super().note(event, **fields)
        if self.hit:  # whatever has just happened, nothing is broken
            self.hit = False
            self.readable()

    def readable(self) -> None:
        """All that the journal names can be read, and is what its name says."""
        other = sqlite3.connect(self.folder / "journal.sqlite", isolation_level=None)
        try:
            assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            if not other.execute("SELECT name FROM sqlite_master WHERE name = 'rounds'").fetchone():
                return
            last = "SELECT state, model FROM rounds WHERE outcome = 'closed' ORDER BY round DESC LIMIT 1"
            named = set(other.execute(last).fetchone() or ())
            if not named:
                named = {row[0] for row in other.execute("SELECT value FROM run WHERE key IN ('state', 'model')")}
            standing = "SELECT file FROM updates JOIN rounds USING (round, attempt) WHERE outcome = 'open'"
            named |= {row[0] for row in other.execute(standing)}
        finally:
            other.close()
        for file in named:
            assert self.disk.digest(file) == file
