"""Outbox: what of a participant must survive a crash: updates on their way, and what it keeps between rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors.numpy import load

from fedloom.data.checksum import Damaged, json_content, read_json
from fedloom.errors import CheckpointError, warn
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
        steps: the optimiser steps that were taken, where there was no time for all of them; 0 is all.
    """

    update: Mapping[str, np.ndarray]
    examples: int
    readings: Mapping[str, float]
    measures: Mapping[str, float]
    keeps: Mapping[str, np.ndarray]
    steps: int = 0


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
    steps: int = 0


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
                          dict(trained.readings), dict(trained.measures), parcel.held, trained.steps)  # fmt: skip
        self.disk.write(PENDING, json_content(vars(pending)))
        self._tidy()
        return pending

    def pending(self) -> Pending | None:
        """Return the update that the server may not have; one that is damaged is dropped with a warning."""
        if self.disk.size(PENDING) is None:
            return None
        try:
            return Pending(**read_json(self.disk.read(PENDING)))
        except Damaged as error:
            warn(f"{self.disk.folder / PENDING} cannot be used: {error}; its round is trained again")
            self.disk.remove(PENDING)
            return None

    def ready(self, run: str, work: Work) -> Pending | None:
        """Return the update for a round if it waits here whole."""
        pending = self.pending()
        if pending is None or (pending.run, pending.round, pending.model) != (run, work.round, work.model):
            return None
        if not self.disk.holds(pending.file):
            warn(f"{self.disk.folder / pending.file}, an update, is missing or damaged: its round is trained again")
            return None
        return pending

    def settle(self, run: str, counted: int, round: int | None) -> None:
        """Keep what belongs to the round that counted last, and forget what did not count.

        Arguments:
            run: the run.
            counted: the last round that counted, or -1.
            round: the one that is under way; ``None`` is none.
        """
        pending = self.pending()
        if pending is None:
            return
        if pending.run == run and pending.round <= counted:
            if pending.keeps is not None:
                self.disk.write(KEPT, json_content({"run": run, "round": pending.round, "file": pending.keeps}))
            self.disk.remove(PENDING)
        elif pending.run != run or pending.round != round:
            self.disk.remove(PENDING)
        self._tidy()

    def kept(self, run: str, counted: int) -> dict[str, np.ndarray]:
        """Return what was kept of the last round that counted; nothing if nothing was.

        Raises:
            CheckpointError: if a file is damaged, or what was kept belongs to another round.
        """
        kept = self._kept()
        if kept is None or kept["run"] != run:
            return {}
        if kept["round"] != counted:
            there = f"{self.disk.folder} keeps what belongs to round {kept['round'] + 1}"
            raise CheckpointError(f"{there}, but the server last counted round {counted + 1} of this participant: "
                                  "restore the folder, or take part under another name")  # fmt: skip
        return load(self.disk.checked(kept["file"]))

    def check_kept(self, parcel: Parcel, kept: Mapping[str, np.ndarray], counted: int) -> None:
        """Raise a :class:`CheckpointError` if work began without what was kept of a round that counted."""
        if parcel.keeps is not None and not kept and counted >= 0:
            lost = f"{self.disk.folder} lacks {KEPT}, what was kept of round {counted + 1}, which the server counted"
            raise CheckpointError(f"{lost}: restore the folder, or take part under another name")

    def _kept(self) -> dict[str, Any] | None:
        if self.disk.size(KEPT) is None:
            return None
        try:
            return read_json(self.disk.read(KEPT))
        except Damaged as error:
            place = self.disk.folder / KEPT
            raise CheckpointError(f"{place} cannot be used: {error}: restore it from a copy") from error

    def _tidy(self) -> None:
        """Take away files that nothing refers to any more."""
        used = {PENDING, KEPT}
        if (pending := self.pending()) is not None:
            used |= {pending.file, pending.keeps or ""}
        if (kept := self._kept()) is not None:
            used.add(kept["file"])
        for name in self.disk.names():
            if name not in used and not name.endswith(".part"):
                self.disk.remove(name)
