"""Ledger: the certificates that an authority has issued, and those that it has revoked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fedloom.data.checksum import json_content, read_json
from fedloom.errors import IdentityError
from fedloom.federation.folder import LEDGER, LOCK, REVOKED, authority_in, contents, write

ENTRIES = "entries"
SERIAL = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Issued:
    """A line of the ledger.

    Arguments:
        name, role, serial: as in :class:`fedloom.federation.identity.Identity`.
        since, until: when the certificate is valid.
        revoked: when it was revoked, if it was.
    """

    name: str
    role: str
    serial: str
    since: datetime
    until: datetime
    revoked: datetime | None = None


def issued(folder: str | Path) -> list[Issued]:
    """Every certificate that an authority has issued, the oldest first."""
    folder = authority_in(folder)
    lines = _entries(folder / LEDGER, ("name", "role", "serial", "from", "until"))
    entries = _entries(folder / REVOKED, ("serial", "at"))
    try:
        ends = {entry["serial"]: datetime.fromisoformat(entry["at"]) for entry in entries}
        return [
            Issued(
                line["name"], line["role"], line["serial"], datetime.fromisoformat(line["from"]),
                datetime.fromisoformat(line["until"]), ends.get(line["serial"]),
            )
            for line in lines
        ]  # fmt: skip
    except ValueError as error:
        raise IdentityError(f"{folder / LEDGER} or {REVOKED} is damaged ({error}): restore it from a copy") from error


def write_empty(folder: Path) -> None:
    """Write the ledger and the list of revocations of a new authority."""
    for name in (LEDGER, REVOKED):
        write(folder / name, _json([]))


def write_issued(folder: Path, lines: Sequence[Issued]) -> None:
    """The ledger anew, with these lines."""
    entries = [
        {"name": line.name, "role": line.role, "serial": line.serial, "from": line.since.isoformat(),
         "until": line.until.isoformat()}
        for line in lines
    ]  # fmt: skip
    write(folder / LEDGER, _json(entries))


def add_revoked(folder: Path, lines: Sequence[Issued], at: datetime) -> None:
    """Revoke these certificates as well, as of a time."""
    entries = _entries(folder / REVOKED, ("serial", "name", "at"))
    entries += [{"serial": line.serial, "name": line.name, "at": at.isoformat()} for line in lines]
    write(folder / REVOKED, _json(entries))


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Inside, no other process changes the ledger."""
    import fcntl

    with (folder / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def records(path: Path, raw: bytes, fields: Sequence[str]) -> list[dict[str, str]]:
    """A list of records with at least these texts. A serial in another spelling would never be found: an error too."""
    try:
        entries = json.loads(raw)
        if not isinstance(entries, list):  # an authority of an older version wrote a list without a checksum
            entries = read_json(raw).get(ENTRIES)
        for entry in entries if isinstance(entries, list) else [None]:
            if not (isinstance(entry, dict) and all(isinstance(entry.get(name), str) for name in fields)):
                raise ValueError(f"not a list of records with {', '.join(fields)}")
            if not SERIAL.fullmatch(entry["serial"]):
                raise ValueError(f"{entry['serial']!r} is no serial of 40 hexadecimal digits")
    except ValueError as error:
        raise IdentityError(f"{path} is damaged ({error}): restore it from a copy") from error
    return entries


def _entries(path: Path, fields: Sequence[str]) -> list[dict[str, str]]:
    return records(path, contents(path), fields)


def _json(entries: list[dict[str, str]]) -> bytes:
    return json_content({ENTRIES: entries})
