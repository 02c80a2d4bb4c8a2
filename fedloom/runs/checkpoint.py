"""Checkpoint: a run's state in one file, written so that a crash at any moment leaves one that can be read.

A checkpoint is a safetensors file: the arrays, and in its header a JSON text with everything else. It is written to a
temporary file, flushed to the disk and renamed; the one before it is kept.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from fedloom.data.files import replacing
from fedloom.errors import CheckpointError

NAME, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"
FORMAT = "fedloom checkpoint 1"


@dataclass(frozen=True)
class Checkpoint:
    """A run's state: its arrays by name, and everything else as what JSON can hold."""

    arrays: dict[str, np.ndarray]
    about: dict[str, Any]


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a run's newest checkpoint; the one before becomes the previous one."""
    about = {**checkpoint.about, "checksum": _checksum(checkpoint.arrays)}
    content = save(checkpoint.arrays, metadata={"format": FORMAT, "about": json.dumps(about)})
    with replacing(folder / NAME) as fresh:
        fresh.write_bytes(content)
        if (folder / NAME).exists():
            (folder / NAME).replace(folder / PREVIOUS)
    _sync(folder)


def read(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint of a run that can be read (``None`` if it has none yet), and a warning for each that cannot
    be. If none can be, a :class:`CheckpointError`.
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
    """The newest checkpoint of a run and the one before it, of those the ones that can be read."""
    found = []
    for name in (NAME, PREVIOUS):
        with suppress(CheckpointError):
            found += [_read(folder / name)] if (folder / name).exists() else []
    return found


def write_text(path: Path, text: str) -> None:
    """Replace a text file at once or not at all."""
    with replacing(path) as fresh:
        fresh.write_bytes(text.encode())


def _read(path: Path) -> Checkpoint:
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is truncated or damaged ({error})") from error
    if header.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of this version of fedloom")
    about = json.loads(header["about"])
    if about.pop("checksum") != _checksum(arrays):
        raise CheckpointError(f"{path} is damaged: its checksum does not match")
    return Checkpoint(arrays, about)


def _checksum(arrays: dict[str, np.ndarray]) -> int:
    digest = 0
    for name in sorted(arrays):
        digest = zlib.crc32(np.ascontiguousarray(arrays[name]).tobytes(), zlib.crc32(name.encode(), digest))
    return digest


def _sync(folder: Path) -> None:
    """Make the renames themselves survive a power cut, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
