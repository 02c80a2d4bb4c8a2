"""Outbox: what of a participant must survive a crash: updates on their way, and what it keeps between rounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from safetensors.numpy import load

from fedloom.federation.disk import Disk, digest
from fedloom.federation.schema import Schema
from fedloom.federation.wire_pb2 import Work

PENDING, KEPT = "pending.json", "kept.json"


@dataclass(frozen=True)
class Trained:
    """What came of local work.

    Arguments:
        update: what is sent.
        examples: how many it was trained on.
        readings: what the weighting looks at.
        measures: sums over one's own examples, of the model that was sent.
        keeps: what stays here for the next round that counts.
    """

    update: Mapping[str, np.ndarray]
    examples: int
    readings: Mapping[str, float]
    measures: Mapping[str, float]
    keeps: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Pending:
    """An update that the server may not have, and what is kept if it counts."""

    run: str
    round: int
    model: str
    file: str
    size: int
    examples: int
    readings: dict[str, float]
    measures: dict[str, float]
    keeps: str | None


@dataclass(frozen=True)
class Parcel:
    """What came of local work, ready to be written.

    Arguments:
        trained: what came of it.
        update, keeps: the files' contents; no keeps where nothing is kept.
        file, held: their names.
    """

    trained: Trained
    update: bytes
    file: str
    keeps: bytes | None
    held: str | None


def parcel(trained: Trained) -> Parcel:
    """Make what came of local work ready to be written: long, and without any effect."""
    update = Schema.of(trained.update).content(trained.update)
    keeps = Schema.of(trained.keeps).content(trained.keeps) if trained.keeps else None
    return Parcel(trained, update, digest(update), keeps, None if keeps is None else digest(keeps))


class Outbox:
    """Files that wait until the server has spoken of them.

    Arguments:
        disk: where they are.
    """

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def remember(self, run: str, work: Work, parcel: Parcel) -> Pending:
        """Keep an update, and what is kept if it counts, until the server has spoken."""
        trained = parcel.trained
        self.disk.write(parcel.file, parcel.update)
        if parcel.keeps is not None and parcel.held is not None:
            self.disk.write(parcel.held, parcel.keeps)
        pending = Pending(run, work.round, work.model, parcel.file, len(parcel.update), trained.examples,
                          dict(trained.readings), dict(trained.measures), parcel.held)  # fmt: skip
        self.disk.write(PENDING, json.dumps(vars(pending)).encode())
        self._tidy()
        return pending

    def pending(self) -> Pending | None:
        """The update that the server may not have."""
        return None if self.disk.size(PENDING) is None else Pending(**json.loads(self.disk.read(PENDING)))

    def settle(self, run: str, counted: int, round: int | None) -> None:
        """Now that the server says which round counted last: keep what comes of that one, forget what did not count.

        Arguments:
            counted: the last round that counted, or -1.
            round: the one that is under way; ``None`` is none.
        """
        pending = self.pending()
        if pending is None:
            return
        if pending.run == run and pending.round <= counted:
            if pending.keeps is not None:
                self.disk.write(KEPT, json.dumps({"run": run, "file": pending.keeps}).encode())
            self.disk.remove(PENDING)
        elif pending.run != run or pending.round != round:
            self.disk.remove(PENDING)
        self._tidy()

    def kept(self, run: str) -> dict[str, np.ndarray]:
        """What was kept of the last round that counted."""
        if self.disk.size(KEPT) is None:
            return {}
        kept = json.loads(self.disk.read(KEPT))
        return load(self.disk.read(kept["file"])) if kept["run"] == run else {}

    def _tidy(self) -> None:
        """Take away files that nothing refers to any more."""
        used = {PENDING, KEPT}
        if (pending := self.pending()) is not None:
            used |= {pending.file, pending.keeps or ""}
        if self.disk.size(KEPT) is not None:
            used.add(json.loads(self.disk.read(KEPT))["file"])
        for name in self.disk.names():
            if name not in used and not name.endswith(".part"):
                self.disk.remove(name)
