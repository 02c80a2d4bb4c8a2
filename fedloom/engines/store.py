"""Store: the examples a program reads, on the device as a whole or brought there a few rounds at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.sharding import Mesh

import fedloom.engines.devices as machine
from fedloom.data.federated import FederatedData, Ranges
from fedloom.data.order import gather
from fedloom.trees import record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Int, PyTree

EVERYBODYS = "everybody's "  # before the name of a part: all its examples, for every client that asks
GLOBAL = EVERYBODYS + "test"
SHARE = 0.4  # of an accelerator's memory that examples may fill


@record
class View:
    """What a program sees of the data: columns, each client's range of an index into them, and the largest size of a
    range, where all outputs of a client are wanted.
    """

    columns: PyTree
    index: Int[Array | np.ndarray, " examples"]
    start: Int[Array | np.ndarray, " clients"]
    size: Int[Array | np.ndarray, " clients"]
    room: int = static(default=0)


@dataclass(frozen=True)
class Store:
    """A federated data set as a program reads it.

    Arguments:
        data: the examples, in the host's memory or on its disk (``numpy.memmap``).
        mesh: the devices that read them.
        resident: everything on the devices; ``None`` where it does not fit and is streamed.
        budget: how many bytes of examples may be on a device at once when streamed.
        placed: the index and ranges of parts other than the training part, once they were asked for.
    """

    data: FederatedData
    mesh: Mesh
    resident: View | None
    budget: int
    placed: dict[str, Any] = field(default_factory=dict)

    def view(self, clients: np.ndarray, part: str = "train") -> View:
        """The examples of a part of these clients (-1 is nobody), ready on the devices. A part that is nobody's is
        everybody's.
        """
        index, ranges = part_of(self.data, part)
        most = int(ranges.size.max())
        if self.resident is not None:
            if part == "train":
                return self.resident
            if part not in self.placed:
                self.placed[part] = machine.place(View({}, index, ranges.start, ranges.size, most), self.mesh)
            rest: View = replace(self.placed[part], columns=self.resident.columns)
            return rest
        if part not in self.data.clients:
            rows = np.arange(len(index), dtype=np.int32)
            view = View(self.block(index, len(index)), rows, ranges.start, ranges.size, most)
            shared: View = machine.place(view, self.mesh)
            return shared
        needed = np.unique(clients[clients >= 0])
        rows = gather(index, ranges.start[needed], ranges.size[needed])
        start = np.zeros_like(ranges.start)
        start[needed] = np.cumsum(ranges.size[needed]) - ranges.size[needed]
        room = max(1, capacity(len(rows)))
        view = View(self.block(rows, room), np.arange(room, dtype=np.int32), start, ranges.size, most)
        placed: View = machine.place(view, self.mesh)
        return placed

    def block(self, rows: np.ndarray, room: int) -> dict[str, np.ndarray]:
        """Those rows of every column, padded to a length that repeats so that nothing compiles anew."""
        blank = np.zeros(room - len(rows), rows.dtype)
        return {name: column[np.concatenate([rows, blank])] for name, column in self.data.columns.items()}

    def fitting(self, cohorts: np.ndarray) -> int:
        """How many of the coming rounds' cohorts (rounds, …) fit on a device at once; at least one."""
        if self.resident is not None:
            return len(cohorts)
        flat = cohorts.reshape(len(cohorts), -1)
        per_round = np.where(flat >= 0, self.data.clients["train"].size[flat], 0).sum(axis=1)
        return max(1, int(np.searchsorted(np.cumsum(per_round * row_bytes(self.data)), self.budget, side="right")))


def store(data: FederatedData, mesh: Mesh, stream: bool | None) -> Store:
    """The store for a data set: on the devices where it fits, streamed from the host where it does not."""
    first = mesh.devices.flat[0]
    budget = int(SHARE * machine.memory(first))
    if stream is None:
        stream = first.platform != "cpu" and row_bytes(data) * len(data.columns["y"]) > budget
    if stream:
        return Store(data, mesh, None, budget // 2)
    train = data.clients["train"]
    view = View(dict(data.columns), data.index, train.start, train.size, int(train.size.max()))
    return Store(data, mesh, machine.place(view, mesh), budget)


def part_of(data: FederatedData, part: str) -> tuple[np.ndarray, Ranges]:
    """Return an index of examples, and each client's range of it. Of a part that no client has examples of, and of a
    part under EVERYBODYS, every client has all examples.
    """
    if part in data.clients:
        return data.index, data.clients[part]
    rows = np.asarray(data.examples(part.removeprefix(EVERYBODYS)), np.int32)
    return rows, Ranges(np.zeros(len(data), np.int32), np.full(len(data), len(rows), np.int32))


def row_bytes(data: FederatedData) -> int:
    """The bytes of one example."""
    return sum(column.nbytes // max(1, len(column)) for column in data.columns.values())


def capacity(rows: int) -> int:
    """The next length in steps of an eighth, so that few different ones are compiled.

    >>> [capacity(n) for n in (1, 6000, 6100)]
    [1, 6144, 6144]
    """
    step = max(1, 2 ** (max(rows - 1, 0).bit_length() - 3)) if rows > 8 else 1
    return -(-rows // step) * step
