"""Disk: the files of a server or a participant, which a crash at any moment leaves whole or absent."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from fedloom.errors import CheckpointError
from fedloom.federation.points import Reach, nothing

BLOCK = 2**20


def digest(content: bytes) -> str:
    """The SHA-256 of a content, by which files are known."""
    return hashlib.sha256(content).hexdigest()


class Disk:
    """Files in one folder, by name.

    Arguments:
        folder: where; made if it is not there.
        reach: told of every moment between two changes of the disk.
    """

    def __init__(self, folder: Path, reach: Reach = nothing) -> None:
        self.folder, self.reach = folder, reach
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, content: bytes) -> None:
        """Write a file at once or not at all; when this returns, it survives a power cut."""
        part = self.folder / f"{name}.new"
        with part.open("wb") as file:
            self.reach("a file is begun")
            file.write(content)
            file.flush()
            self.reach("a file is written")
            os.fsync(file.fileno())
        part.replace(self.folder / name)
        self.reach("a file is named")
        self._sync()

    def append(self, name: str, start: int, content: bytes) -> None:
        """Write from some byte of a file on; what stood after it is gone."""
        path = self.folder / name
        with path.open("r+b" if path.exists() else "wb") as file:
            file.truncate(start)
            file.seek(start)
            file.write(content)

    def sync(self, name: str) -> None:
        """Make what stands in a file survive a power cut."""
        with (self.folder / name).open("rb") as file:
            os.fsync(file.fileno())

    def rename(self, old: str, new: str) -> None:
        """Give a finished file its name; when this returns, it survives a power cut."""
        self.sync(old)
        (self.folder / old).replace(self.folder / new)
        self.reach("a file is named")
        self._sync()

    def read(self, name: str, start: int = 0, most: int | None = None) -> bytes:
        """So many bytes of a file from some byte on."""
        with (self.folder / name).open("rb") as file:
            file.seek(start)
            return file.read() if most is None else file.read(most)

    def checked(self, name: str) -> bytes:
        """Return the content of a file that is named by its SHA-256.

        Raises:
            CheckpointError: if the file is missing, or its content has another SHA-256.
        """
        place = self.folder / name
        try:
            content = self.read(name)
        except FileNotFoundError:
            raise CheckpointError(f"{place} is missing: restore it from a copy") from None
        if digest(content) != name:
            raise CheckpointError(f"{place} is damaged: its SHA-256 is not its name: restore it from a copy")
        return content

    def holds(self, name: str) -> bool:
        """True if a file is there and its content has the SHA-256 that it is named by."""
        return self.size(name) is not None and self.digest(name) == name

    def size(self, name: str) -> int | None:
        """How many bytes a file has; ``None`` if it is not there."""
        try:
            return (self.folder / name).stat().st_size
        except FileNotFoundError:
            return None

    def digest(self, name: str) -> str:
        """The SHA-256 of a file."""
        with (self.folder / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def remove(self, name: str) -> None:
        """Take a file away, if it is there."""
        (self.folder / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """All files."""
        with os.scandir(self.folder) as found:
            return sorted(entry.name for entry in found if entry.is_file())

    def _sync(self) -> None:
        """Make names themselves survive a power cut, where the system can."""
        if os.name == "posix":
            handle = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
