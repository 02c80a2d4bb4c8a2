"""FederatedData: whose example is whose."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fedloom.data.features import Features
from fedloom.data.inputs import described, stored
from fedloom.data.order import gather
from fedloom.data.read_as import ReadAs
from fedloom.data.split.split import PARTS
from fedloom.errors import DataError, UnknownName, whole


@dataclass(frozen=True)
class Ranges:
    """For each client, where its examples start in the index and how many there are."""

    start: np.ndarray
    size: np.ndarray

    def check(self, name: str, clients: int, n: int) -> None:
        """Raise a :class:`DataError` unless these are the ranges of so many clients in an index of so many rows."""
        for array in (self.start, self.size):
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or array.shape != (clients,):
                raise DataError(f"{name} must be whole numbers, {clients:,} of them, but are {told(array)}")
        ends = self.start.astype(np.int64) + self.size
        if clients and (self.start.min() < 0 or self.size.min() < 0 or ends.max() > n):
            raise DataError(f"{name} lie outside its index of {n:,} examples")

    def rows(self, index: np.ndarray) -> np.ndarray:
        """What the index lists for all clients, one after another."""
        return gather(index, self.start, self.size)

    @property
    def owner(self) -> np.ndarray:
        """The client of each of those rows."""
        return np.repeat(np.arange(len(self.size), dtype=np.int32), self.size)


@dataclass(frozen=True)
class FederatedData:
    """All examples in flat columns, and for each client the ranges of its train, validation and test parts.

    Nothing is copied per client: ``index`` lists example numbers client after client, and a client is one range of it
    for each part, so a million clients cost a few integers each.

    Arguments:
        columns: ``x`` and ``y``, one row an example; the type of ``x`` says whether it is images
            (``uint8``, ``uint16``), integers (signed) or other numbers (floats).
        classes: how many classes the labels ``y`` count; 1 where they are numbers to be predicted.
        index: example numbers, each client's together.
        clients: the part's name (``train``, ``validation``, ``test``) → the range of ``index`` of every client.
        central: parts that no client owns, as example numbers: the usual test set, a hold-out.
        client_names, class_names: what they are called, where they have names.
        note: what a reader would want to know of how it was made.
        skew: what was done to clients' inputs, where something was.
        features: what the columns of a table are called, and were shifted and scaled by.
        images: whether ``x`` is images; ``None``: see :func:`fedloom.data.inputs.stored`.
        read_as: how each column of a table was read.
        target_scale: the mean and the deviation of the numbers to be predicted, if another's (a server's) are used
            instead of those of the training examples.

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
    client_names: Sequence[str] = ()
    class_names: Sequence[str] = ()
    note: str = ""
    skew: str = ""
    features: Features | None = None
    images: bool | None = None
    read_as: tuple[ReadAs, ...] = ()
    target_scale: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_columns(self.name, self.columns, self.classes)
        x, images = stored(self.name, self.columns["x"], self.images)
        if x is not self.columns["x"]:
            object.__setattr__(self, "columns", {**self.columns, "x": x})
        object.__setattr__(self, "images", images)
        self._check_ranges()
        self._check_values()

    def __repr__(self) -> str:
        sizes = self.clients["train"].size
        return f"FederatedData({self.name!r}: {len(self):,} clients of {sizes.min():,} to {sizes.max():,} examples)"

    def __len__(self) -> int:
        return len(self.clients["train"].size)

    @property
    def inputs(self) -> str:
        """What models see of the column ``x``, in one line."""
        return described(self.columns["x"], bool(self.images), self.features is not None)

    @property
    def splits(self) -> tuple[str, ...]:
        """The parts that have examples."""
        return tuple(name for name in PARTS if self._has(name))

    def examples(self, split: str, client: int | None = None) -> np.ndarray:
        """The example numbers of a part: of one client, or of everybody."""
        if not self._has(split):
            raise UnknownName("split", split, self.splits)
        if client is None:
            return self._everybodys(split)
        whole("client", client, 0, len(self) - 1)
        if split not in self.clients:
            raise DataError(f"the {split} examples of {self.name} are nobody's: ask for them without a client")
        ranges = self.clients[split]
        return self.index[ranges.start[client] : ranges.start[client] + ranges.size[client]]

    def union(self) -> FederatedData:
        """The *global user*: one client that has everybody's training examples; validation and test are nobody's."""
        train = self.examples("train")
        ranges = {"train": Ranges(np.zeros(1, np.int32), np.array([len(train)], np.int32))}
        central = {name: self.examples(name) for name in self.splits if name != "train"}
        name, everyone = f"{self.name}/union", ("the union",)
        return replace(self, name=name, index=train, clients=ranges, central=central, client_names=everyone)

    def alone(self, client: int) -> FederatedData:
        """One client's examples, and nothing of anybody else: what a participant has.

        >>> columns = {"x": np.arange(4.0)[:, None], "y": np.array([0, 1, 1, 0])}
        >>> parts = {"train": Ranges(np.array([0, 1]), np.array([1, 3]))}
        >>> FederatedData("toy", columns, 2, np.arange(4), parts, {}).alone(1).columns["x"][:, 0].tolist()
        [1.0, 2.0, 3.0]
        """
        whole("client", client, 0, len(self) - 1)
        parts = {name: self.examples(name, client) for name, each in self.clients.items() if each.size[client]}
        ends = np.cumsum([len(rows) for rows in parts.values()]).astype(np.int32)
        ranges = {name: Ranges(np.array([end - len(rows)], np.int32), np.array([len(rows)], np.int32))
                  for (name, rows), end in zip(parts.items(), ends, strict=True)}  # fmt: skip
        index = np.concatenate(list(parts.values()))
        columns = {name: column[index] for name, column in self.columns.items()}
        names = (self.client_names[client],) if len(self.client_names) else ()
        return replace(
            self, name=f"{self.name}[{client}]", columns=columns, index=np.arange(len(index), dtype=np.int32),
            clients=ranges, central={}, client_names=names,
        )  # fmt: skip

    def called(self, client: int) -> str:
        """What a client is called.

        >>> columns = {"x": np.zeros((1, 2), np.uint8), "y": np.array([0])}
        >>> data = FederatedData("toy", columns, 2, np.arange(1), {"train": Ranges(np.array([0]), np.array([1]))}, {})
        >>> data.called(0)
        'client 0'
        """
        return f"client {client}" + (f" ({self.client_names[client]})" if len(self.client_names) else "")

    @cached_property
    def fingerprint(self) -> str:
        """A short text that tells data sets apart, by who has what, all labels and a thousand rows of every column: a
        resumed run checks it.
        """
        parts = [self.index, *(a for r in self.clients.values() for a in (r.start, r.size)), *self.central.values()]
        digest = 0
        for array in [*parts, self.columns["y"], *(c[:: max(1, len(c) // 1000)] for c in self.columns.values())]:
            digest = zlib.crc32(np.ascontiguousarray(array).tobytes(), digest)
        return f"{self.name}:{len(self)}:{digest:08x}"

    def _has(self, split: str) -> bool:
        return len(self.central.get(split, ())) > 0 or (split in self.clients and bool(self.clients[split].size.any()))

    def _everybodys(self, split: str) -> np.ndarray:
        """The examples of all clients and those of nobody."""
        nobodys = self.central.get(split, np.zeros(0, np.int32))
        if split not in self.clients:
            return nobodys
        ranges = self.clients[split]
        if len(self.clients) == 1 and not len(nobodys) and len(self.index) == ranges.size.sum():
            return self.index
        return np.concatenate([ranges.rows(self.index), nobodys])

    def _check_ranges(self) -> None:
        n = len(self.columns["y"])
        if "train" not in self.clients or not len(self.clients["train"].size):
            raise DataError(f"{self.name} has no clients: make at least one")
        clients = len(self.clients["train"].size)
        for part, ranges in self.clients.items():
            ranges.check(f"the {part} ranges of {self.name}", clients, len(self.index))
        if len(self.client_names) not in (0, clients):
            raise DataError(f"{self.name} has {clients:,} clients but {len(self.client_names):,} names for them")
        sizes = self.clients["train"].size
        if (sizes < 1).any():
            empty = int(np.argmax(sizes < 1))
            raise DataError(
                f"{self.called(empty)} of {self.name} has no training examples: use fewer clients or more data"
            )
        parts = {f"clients' {part}": ranges.rows(self.index) for part, ranges in self.clients.items()}
        check_rows(self.name, parts | {f"central {part}": rows for part, rows in self.central.items()}, n)

    def _check_values(self) -> None:
        y = self.columns["y"]
        lowest = 0 if y.ndim == 1 else -1  # a sequence shorter than the others is padded with labels of -1
        if y.size and y.dtype.kind != "f" and (y.min() < lowest or y.max() >= self.classes):
            row, *place = (int(i[0]) for i in np.nonzero((y < lowest) | (y >= self.classes)))
            raise DataError(
                f"label {y[row, *place]} in row {row} of column y ({self._owner(row)}) is out of range: "
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
                    return f"{split} data of {self.called(int(inside[0]))}"
        return "no client's"


def check_columns(name: str, columns: dict[str, np.ndarray], classes: int) -> None:
    """Raise a :class:`DataError` unless there are x and y, arrays of one length, and y counts classes or is numbers to
    be predicted.
    """
    whole("classes", classes, 1)
    for wanted in ("x", "y"):
        column = columns.get(wanted)
        if not isinstance(column, np.ndarray) or column.ndim < 1:
            raise DataError(
                f"{name} must have a column {wanted}, an array with a row for each example, but has {told(column)}"
            )
    lengths = {column: len(values) for column, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the columns of {name} differ in length: {lengths}")
    if columns["y"].dtype.kind not in "iuf":
        raise DataError(
            f"the labels y of {name} must be class numbers, whole and from 0, or numbers to be predicted, but are "
            f"{told(columns['y'])}"
        )


def check_rows(name: str, parts: dict[str, np.ndarray], n: int) -> None:
    """Raise a :class:`DataError` unless the parts list examples that are there, and none twice."""
    for part, rows in parts.items():
        if not isinstance(rows, np.ndarray) or rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise DataError(f"{part} of {name} must be an array of example numbers, but is {told(rows)}")
        if len(rows) and not 0 <= rows.min() <= rows.max() < n:
            raise DataError(f"{part} of {name} names examples {rows.min()} to {rows.max()}, but there are 0 to {n - 1}")
    seen, many = np.zeros(n, bool), 0
    for part, rows in parts.items():
        seen[rows] = True
        many += len(rows)
        if np.count_nonzero(seen) < many:
            raise DataError(f"{part} of {name} has an example that is there twice, or in another part too")


def told(value: object) -> str:
    """What a value is, for an error: an array's type and shape, or the type of anything else."""
    return f"{value.dtype} of {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
