"""Revoked: whom a server no longer lets in."""

from __future__ import annotations

import os
from pathlib import Path

from fedloom.errors import IdentityError, require
from fedloom.federation.ledger import SERIAL, records


class Revoked:
    """The serials that are no longer accepted: ``identity.serial in revoked`` rereads the file when it has changed.

    A file that is missing or damaged closes the door: what was known to be revoked stays so, and for everybody else
    the question raises an :class:`IdentityError`, until the file is good again. At the beginning it must be good.

    Arguments:
        path: of ``revoked.json``.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._known: tuple[tuple[int, ...], frozenset[str]] = ((), frozenset())
        self._read()

    def __contains__(self, serial: str) -> bool:
        require(bool(SERIAL.fullmatch(serial)), "serial", "40 hexadecimal digits", serial)
        try:
            return serial in self._read()
        except IdentityError:
            if serial in self._known[1]:
                return True
            raise

    def _read(self) -> frozenset[str]:
        try:
            if _stamp(self.path.stat()) != self._known[0]:
                with self.path.open("rb") as file:
                    stamp, raw = _stamp(os.fstat(file.fileno())), file.read()
                entries = records(self.path, raw, ("serial",))
                self._known = stamp, frozenset(entry["serial"] for entry in entries)  # at once, for other threads
        except OSError as error:
            raise IdentityError(f"{self.path} cannot be read ({error}): nobody is let in without it") from error
        return self._known[1]


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size
