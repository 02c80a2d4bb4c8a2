"""FederatedData: whose example is whose."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedloom.errors import DataError, UnknownName


@dataclass(frozen=True)
class Ranges:
    """For each client, where its examples start in the index and how many there are."""

    start: np.ndarray
    size: np.ndarray


@dataclass(frozen=True)
class FederatedData:
    """All examples in flat columns, and for each client the ranges of its train, validation and test parts.

    Nothing is copied per client: ``index`` lists example numbers client after client, and a client is one range of it
    for each part, so a million clients cost a few integers each.

    Arguments:
        columns: ``x`` and ``y``, one row an example; whatever type the source has (images stay ``uint8``).
        classes: how many classes the labels ``y`` count.
        index: example numbers, each client's together.
        clients: the part's name (``train``, ``validation``, ``test``) → the range of ``index`` of every client.
        central: parts that no client owns, as example numbers: the usual test set, a hold-out.

    >>> columns = {"x": np.zeros((4, 2), np.uint8), "y": np.array([0, 1, 1, 0])}
    >>> data = FederatedData("toy", columns, 2, np.arange(4), {"train": Ranges(np.array([0, 1]), np.array([1, 3]))}, {})
    >>> data.examples("train", client=1).tolist()
    [1, 2, 3]
    """

    name: str
    columns: dict[str, np.ndarray]
    classes: int
    index: np.ndarray
    clients: dict[str, Ranges]
    central: dict[str, np.ndarray]

    def __post_init__(self) -> None:
        self._check_ranges()
        self._check_values()

    def __repr__(self) -> str:
        sizes = self.clients["train"].size
        return f"FederatedData({self.name!r}: {len(self):,} clients of {sizes.min():,} to {sizes.max():,} examples)"

    def __len__(self) -> int:
        return len(self.clients["train"].size)

    @property
    def splits(self) -> tuple[str, ...]:
        """The parts that have examples."""
        return tuple(name for name in ("train", "validation", "test") if self._has(name))

    def examples(self, split: str, client: int | None = None) -> np.ndarray:
        """The example numbers of a part: of one client, or of everybody."""
        if not self._has(split):
            raise UnknownName("split", split, self.splits)
        if client is None:
            return self.central[split] if len(self.central.get(split, ())) else self._union(split)
        ranges = self.clients[split]
        return self.index[ranges.start[client] : ranges.start[client] + ranges.size[client]]

    @cached_property
    def fingerprint(self) -> str:
        """A short text that differs where the data differs: a resumed run checks it."""
        parts = [self.index, *(a for r in self.clients.values() for a in (r.start, r.size)), *self.central.values()]
        digest = 0
        for array in [*parts, self.columns["y"], *(c[:: max(1, len(c) // 1000)] for c in self.columns.values())]:
            digest = zlib.crc32(np.ascontiguousarray(array).tobytes(), digest)
        return f"{self.name}:{len(self)}:{digest:08x}"

    def _has(self, split: str) -> bool:
        return len(self.central.get(split, ())) > 0 or (split in self.clients and bool(self.clients[split].size.any()))

    def _union(self, split: str) -> np.ndarray:
        ranges = self.clients[split]
        if split == "train" and len(self.clients) == 1:
            return self.index
        pieces = [self.index[s : s + n] for s, n in zip(ranges.start, ranges.size, strict=True)]
        return np.concatenate(pieces)

    def _check_ranges(self) -> None:
        sizes = self.clients["train"].size
        if not len(sizes):
            raise DataError(f"{self.name} has no clients: make at least one")
        if (sizes < 1).any():
            empty = int(np.argmax(sizes < 1))
            raise DataError(f"client {empty} of {self.name} has no training examples: use fewer clients or more data")
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"the columns of {self.name} differ in length: {lengths}")

    def _check_values(self) -> None:
        y = self.columns["y"]
        bad = np.flatnonzero((y < 0) | (y >= self.classes)) if np.issubdtype(y.dtype, np.integer) else np.zeros(0, int)
        if len(bad):
            where, row = self._owner(int(bad[0])), int(bad[0])
            raise DataError(
                f"label {y[row]} in row {row} of column y ({where}) is out of range: "
                f"{self.name} has classes 0 to {self.classes - 1}"
            )
        for name, column in self.columns.items():
            if not np.issubdtype(column.dtype, np.floating):
                continue
            step = max(1, 2**24 // max(1, int(np.prod(column.shape[1:]))))
            for start in range(0, len(column), step):
                block = column[start : start + step].reshape(len(column[start : start + step]), -1)
                rows = np.flatnonzero(~np.isfinite(block).all(axis=1))
                if len(rows):
                    row = start + int(rows[0])
                    raise DataError(
                        f"row {row} of column {name} ({self._owner(row)}) holds NaN or infinity: "
                        "fill or drop it before training"
                    )

    def _owner(self, example: int) -> str:
        for split, ranges in self.clients.items():
            at = np.flatnonzero(self.index == example)
            for place in at:
                inside = np.flatnonzero((ranges.start <= place) & (place < ranges.start + ranges.size))
                if len(inside):
                    return f"{split} data of client {int(inside[0])}"
        return "no client's"
