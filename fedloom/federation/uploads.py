"""Uploads: files that participants push, until they are updates; and what is believed of them."""

from __future__ import annotations

import numpy as np

from fedloom.federation.arithmetic import Arithmetic
from fedloom.federation.disk import Disk
from fedloom.federation.rules import Rules
from fedloom.federation.schema import Unfit
from fedloom.federation.wire import MOST
from fedloom.federation.wire_pb2 import Update

PART = ".part"  # what the names of unfinished files end in


class Uploads:
    """Unfinished files, one of each participant at most: many could fill the disk.

    Arguments:
        disk: where they are.
        arithmetic: what an update holds.
        rules: what is believed.
    """

    def __init__(self, disk: Disk, arithmetic: Arithmetic, rules: Rules) -> None:
        self.disk, self.arithmetic, self.rules = disk, arithmetic, rules
        self.pushing: dict[int, str] = {}  # the file of each participant, by its number

    def part(self, number: int, file: str) -> str:
        """The name of an unfinished file."""
        return f"{number}-{file}{PART}"

    def size(self, number: int, file: str) -> int:
        """How many bytes of a file a participant has pushed."""
        return self.disk.size(self.part(number, file)) or 0

    def check(self, start: int, size: int, content: bytes) -> None:
        """Raise :class:`Unfit` for bytes that are of no update."""
        most = self.arithmetic.update_schema.most
        if size > most or start + len(content) > size:
            raise Unfit(f"a file of {max(size, start + len(content)):,} bytes; the largest has {most:,}")

    def take(self, number: int, file: str, start: int, content: bytes) -> int:
        """Some bytes of a file from some byte on; how many there are then."""
        part, have = self.part(number, file), self.size(number, file)
        if start > have:
            return have
        if self.pushing.get(number) != part:
            self.drop(number)
            self.pushing[number] = part
        self.disk.append(part, start, content)
        return start + len(content)

    def accept(self, number: int, file: str) -> None:
        """A file is whole: it gets its own name."""
        self.disk.rename(self.part(number, file), file)
        self.pushing.pop(number, None)

    def drop(self, number: int) -> None:
        """Take away what a participant has pushed."""
        if part := self.pushing.pop(number, None):
            self.disk.remove(part)

    def clear(self) -> None:
        """Take away what everybody has pushed."""
        self.pushing.clear()
        for name in self.disk.names():
            if name.endswith(PART):
                self.disk.remove(name)

    def fault(self, number: int, update: Update) -> str | None:
        """What is wrong with an update whose file is there: nothing, or why it is refused. Long, and without any
        effect; raises :class:`FileNotFoundError` where the file is not what its name says.
        """
        part, rules = self.part(number, update.file), self.rules
        if self.disk.digest(part) != update.file:
            raise FileNotFoundError(part)
        self.disk.sync(part)  # here, where nobody else waits for it
        if (claim := self._unbelievable(update)) is not None:
            return claim
        try:
            arrays = self.arithmetic.update_schema.arrays(self.disk.read(part))
        except Unfit as error:
            return str(error)
        for field_, array in arrays.items():
            if array.dtype.kind not in "biu" and not (np.abs(array) <= MOST).all():
                return f"{field_} holds numbers beyond {MOST:g}"
        norm = self.arithmetic.norm(arrays)
        return None if norm <= rules.norm else f"its norm is {norm:g}; at most {rules.norm:g} is believed"

    def _unbelievable(self, update: Update) -> str | None:
        """What an update says of itself that is not believed."""
        most = self.rules.examples
        if not 1 <= update.examples <= most:
            return f"it claims {update.examples:,} examples; 1 to {most:,} are believed"
        for need in self.arithmetic.algorithm.readings:
            if need.name not in update.readings:
                return f"it does not say its {need.name.replace('_', ' ')}"
        for what, value in [*update.readings.items(), *update.measures.items()]:
            if abs(value) > MOST:
                return f"it claims a {what.replace('_', ' ')} of {value:g}"
        count, right = update.measures.get("count", 0.0), update.measures.get("accuracy", 0.0)
        if not 0 <= count <= most or not 0 <= right <= count * (1 + 1e-6):  # as much as rounding may add
            return f"it claims to be right on {right:g} of {count:g} examples"
        return None
