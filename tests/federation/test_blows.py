"""A server on a real folder goes on after a crash, and after a full disk, at every moment at which it writes."""

from __future__ import annotations

import errno
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from ground import ROUNDS, Blow, Ground, Grounded
from weather import Crash, expected, tiny

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def quick() -> Iterator[Path]:
    """A folder in memory, where there is one: a thousand flushes of a disk take long, and say nothing here."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


class Half(Ground):
    """A disk that, where it is full, has had room for half of what is written."""

    def write(self, name: str, content: bytes) -> None:
        try:
            self.reach("room for a file")
        except OSError:
            (self.folder / f"{name}.new").write_bytes(content[: len(content) // 2])
            raise
        super().write(name, content)

    def append(self, name: str, start: int, content: bytes) -> None:
        try:
            self.reach("room for more")
        except OSError:
            super().append(name, start, content[: len(content) // 2])
            raise
        super().append(name, start, content)

    def rename(self, old: str, new: str) -> None:
        self.reach("room for a name")
        super().rename(old, new)


def crash(name: str) -> None:
    raise Crash(name)


def full(name: str) -> None:
    if name.startswith("before "):
        raise sqlite3.OperationalError("database or disk is full")
    if not name.startswith("after ") and name != "a file is named":  # what is named is there, and a commit is one
        raise FULL


def blows(what: Blow, first: int, many: int) -> tuple[Blow, list[str]]:
    """Something that happens so many times, from some moment on; and the moments that have come."""
    come: list[str] = []

    def blow(name: str) -> None:
        come.append(name)
        if first <= len(come) - 1 < first + many:
            what(name)

    return blow, come


def moments(folder: Path, ground: type[Ground]) -> Iterator[int]:
    blow, come = blows(crash, 0, 0)
    Grounded(folder, blow, ground).run()
    assert {"a file is begun", "a file is written", "a file is named"} <= set(come)
    return iter(range(len(come)))


def test_a_void_round_at_every_moment(quick: Path) -> None:
    """One participant lies in the first round: its model is dropped, the second round is as if nobody had worked."""
    lies, wanted = frozenset({(1, 0)}), expected(tiny(1.0), [[], [0, 1, 2]], 3)
    calm = Grounded(quick / "calm", lambda _: None, lies=lies)
    assert np.array_equal(calm.run(), wanted)
    why = "the test loss of the model after it is inf"
    [event] = [fields for _, event, fields in calm.events if event == "void"]
    assert event == {"round": 0, "attempt": 0, "why": why, "participants": ["p0", "p1", "p2"]}
    blow, come = blows(crash, 0, 0)
    Grounded(quick / "count", blow, lies=lies).run()
    closes = [i for i, name in enumerate(come) if "a round closes" in name or "file" in name]
    for first in closes:
        blow, _ = blows(crash, first, 1)
        world = Grounded(quick / str(first), blow, lies=lies)
        assert np.array_equal(world.run(), wanted), (first, come[first])
        world.readable()
        [void] = world.coordinator.journal.voids()
        assert (void.round, void.why, sorted(void.names)) == (0, why, ["p0", "p1", "p2"])


LONG = pytest.param(full, 6, Half, marks=pytest.mark.slow)


@pytest.mark.parametrize(("what", "many", "ground"), [(crash, 1, Ground), (full, 1, Half), LONG])
def test_every_moment(quick: Path, what: Blow, many: int, ground: type[Ground]) -> None:
    wanted = expected(tiny(1.0), [[0, 1, 2]] * ROUNDS, 3)
    for first in moments(quick / "calm", ground):
        blow, come = blows(what, first, many)
        world = Grounded(quick / str(first), blow, ground)
        assert np.array_equal(world.run(), wanted), (first, come[first])
        world.readable()
