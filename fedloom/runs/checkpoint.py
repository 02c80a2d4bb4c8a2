"""Checkpoint: a run's state in one file, written so that a crash at any moment leaves one that can be read.

A checkpoint is a safetensors file: the arrays, and in its header a JSON text with everything else and a checksum of the
whole file. It is written to a temporary file, flushed to the disk and renamed; the one before it is kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.data.checksum import Damaged, arrays_content, read_arrays
from fedloom.data.files import replacing
from fedloom.errors import CheckpointError

NAME, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"
FORMAT = "fedloom checkpoint 2"
LAST, BEST, USERS = "last", "best", "users"
"""Parts of a checkpoint: the state after the last round, the state after the best round (if it is kept and is another
one), and what was measured of each user."""


@dataclass(frozen=True)
class Checkpoint:
    """A run's state: its arrays by name, and everything else as JSON values.

    An array's name is the name of a part, a slash, and its name within the part.
    """

    arrays: dict[str, np.ndarray]
    about: dict[str, Any]

    @classmethod
    def of(cls, parts: Mapping[str, Mapping[str, np.ndarray]], about: dict[str, Any]) -> Checkpoint:
        """Return a checkpoint of several parts.

        >>> stored = Checkpoint.of({"last": {"w": np.ones(2)}, "users": {}}, {})
        >>> list(stored.arrays), list(stored.part("last"))
        (['last/w'], ['w'])
        """
        named = {f"{part}/{name}": array for part, arrays in parts.items() for name, array in arrays.items()}
        return cls(named, about)

    def part(self, part: str) -> dict[str, np.ndarray]:
        """Return the arrays of a part by their names within it."""
        start = f"{part}/"
        return {name.removeprefix(start): a for name, a in self.arrays.items() if name.startswith(start)}


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a run's newest checkpoint; the one before becomes the previous one."""
    content = arrays_content(checkpoint.arrays, {"format": FORMAT, "about": json.dumps(checkpoint.about)})
    with replacing(folder / NAME) as fresh:
        fresh.write_bytes(content)
        if (folder / NAME).exists():
            (folder / NAME).replace(folder / PREVIOUS)
    _sync(folder)


def exists(folder: Path) -> bool:
    """True if a folder holds a checkpoint, whether it can be read or not."""
    return any((folder / name).exists() for name in (NAME, PREVIOUS))


def read(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest checkpoint that can be read, and a warning for each that cannot be.

    Returns:
        ``None`` in place of the checkpoint if the folder has none yet.

    Raises:
        CheckpointError: if there are checkpoints and none can be read.
    """
    troubles: list[str] = []
    for name in (NAME, PREVIOUS):
        if (folder / name).exists():
            try:
                return _read(folder / name), troubles
            except CheckpointError as error:
                troubles.append(str(error))
    if troubles:
        raise CheckpointError("; ".join(troubles) + "; start the run again in another folder")
    return None, []


def kept(folder: Path) -> list[Checkpoint]:
    """Return the newest checkpoint of a run and the one before it, without those that cannot be read."""
    found = []
    for name in (NAME, PREVIOUS):
        with suppress(CheckpointError):
            found += [_read(folder / name)] if (folder / name).exists() else []
    return found


def write_text(path: Path, text: str) -> None:
    """Replace a text file at once or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file at once or not at all."""
    with replacing(path) as fresh:
        fresh.write_bytes(content)


def _read(path: Path) -> Checkpoint:
    try:
        arrays, header = read_arrays(path.read_bytes())
    except Damaged as error:
        raise CheckpointError(f"{path} cannot be used: {error}") from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error})") from error
    if header.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of this version of fedloom")
    return Checkpoint(arrays, json.loads(header["about"]))


def _sync(folder: Path) -> None:
    """Make the renames themselves survive a power cut, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
