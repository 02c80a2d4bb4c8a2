"""Dataset: examples in flat columns, before anybody owns them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.features import Features, without_unseen
from fedloom.data.federated import FederatedData, check_columns, check_rows, told
from fedloom.data.held import Held, held
from fedloom.data.inputs import stored
from fedloom.data.partition.partition import Columns, Deal, Examples, Partition, counted
from fedloom.data.precision import warn_of_rounding
from fedloom.data.read_as import ReadAs
from fedloom.data.split.split import JUDGED, TRAIN, Split
from fedloom.errors import ArgumentError, DataError, whole

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

BLOCK = 2**22  # numbers that are standardised at a time


def _none() -> np.ndarray:
    return np.zeros(0, np.int32)


@dataclass(frozen=True)
class Dataset:
    """All examples in flat columns (``x``, ``y``), and which of them are for training, validation and testing.

    Arguments:
        name: what it is called in tables.
        columns: ``x`` and ``y``, one row an example; the rows of one user in the order in which they were made.
        classes: how many classes the labels ``y`` count; 1 where they are numbers to be predicted.
        train, validation, test: example numbers.
        users: who made each example, as a number below ``len(user_names)``; ``None`` where nobody knows.
        user_names, class_names: what they are called; class names may be left empty.
        standardise: which features (along the last axis of ``x``) are shifted and scaled by the mean and deviation of
            the training examples, their missing values (NaN) filled with the mean; ``None``: none.
        features: what those features are called, where they are columns of a table.
        feature_columns: the column that each of them is made of.
        note: what a reader would want to know of how it was read.
        images: whether ``x`` is images, which models see as 0 to 1; other integers are used as they are. ``None``: see
            :func:`fedloom.data.inputs.stored`, which also says in which type ``x`` is kept.
        read_as: how each column of a table was read.

    >>> columns = {"x": np.arange(6.0), "y": np.array([0, 0, 0, 1, 1, 1])}
    >>> data = Dataset("toy", columns, classes=2, train=np.arange(6))
    >>> data.hold_out(2, seed=0)
    Dataset('toy': 4 train, 2 validation, 0 test examples)
    """

    name: str
    columns: Columns
    classes: int
    train: Int[np.ndarray, " train"]
    validation: Int[np.ndarray, " validation"] = field(default_factory=_none)
    test: Int[np.ndarray, " test"] = field(default_factory=_none)
    users: Int[np.ndarray, " examples"] | None = None
    user_names: Sequence[str] = ()
    class_names: Sequence[str] = ()
    standardise: Bool[np.ndarray, " features"] | None = None
    features: Sequence[str] = ()
    feature_columns: Sequence[str] = ()
    note: str = ""
    images: bool | None = None
    read_as: tuple[ReadAs, ...] = ()

    def __post_init__(self) -> None:
        check_columns(self.name, self.columns, self.classes)
        if self.standardise is None:
            x, images = stored(self.name, self.columns["x"], self.images)
            if x is not self.columns["x"]:
                object.__setattr__(self, "columns", {**self.columns, "x": x})
            object.__setattr__(self, "images", images)
        n = len(self.columns["y"])
        check_rows(self.name, self.parts, n)
        users = self.users
        if users is None:
            return
        if not isinstance(users, np.ndarray) or users.dtype.kind not in "iu" or users.shape != (n,):
            raise DataError(f"the users of {self.name} must be {n:,} whole numbers, but are {told(users)}")
        if n and not 0 <= users.min() <= users.max() < len(self.user_names):
            raise DataError(
                f"the users of {self.name} must be below {len(self.user_names):,}, the number of their names, and not "
                f"negative, but are {users.min()} to {users.max()}"
            )

    def __repr__(self) -> str:
        sizes = f"{len(self.train):,} train, {len(self.validation):,} validation, {len(self.test):,} test"
        whose = f" of {len(self.user_names):,} users" if self.users is not None else ""
        return f"Dataset({self.name!r}: {sizes} examples{whose})"

    @property
    def parts(self) -> dict[str, Int[np.ndarray, " n"]]:
        """The example numbers of each part."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def hold_out(self, validation: int, seed: int = 0) -> Dataset:
        """Draw a validation set at random from the training examples, before any client gets them."""
        whole("validation", validation, 0, len(self.train) - 1)
        whole("seed", seed, 0)
        if len(self.validation):
            raise DataError(f"{self.name} has a validation set of its own ({len(self.validation):,} examples)")
        order = np.random.default_rng([seed, 0x9A11D]).permutation(self.train)
        return replace(self, validation=np.sort(order[:validation]), train=np.sort(order[validation:]))

    def pool(self) -> Dataset:
        """The same with all examples for training, so that clients get, and split, everything."""
        everything = np.concatenate([self.train, self.validation, self.test])
        return replace(self, train=np.sort(everything), validation=_none(), test=_none())

    def partition(self, scheme: Partition, split: Split | None = None, seed: int = 0) -> FederatedData:
        """Deal the training examples to clients, and split what each has.

        Arguments:
            scheme: who gets what: :mod:`fedloom.data.partition`.
            split: which of it is for training, validation and testing: :mod:`fedloom.data.split`; by default all is
                for training.
            seed: of everything random in both.
        """
        if not isinstance(scheme, Partition):
            raise ArgumentError("scheme", "a partition such as fedloom.partition.iid(100)", scheme)
        if split is not None and not isinstance(split, Split):
            raise ArgumentError("split", "a split such as fedloom.split.stratified(), or None", split)
        whole("seed", seed, 0)
        if not len(self.train):
            raise DataError(f"{self.name} has no training examples to deal")
        examples = self._examples()
        deal = scheme.deal(examples, np.random.default_rng([seed, 0xDEA1]))
        part = self._split(deal, split, examples.labels, np.random.default_rng([seed, 0x5B117]))
        name = "/".join([self.name, scheme.name, *([split.name] if split else [])])
        notes = [self.note, deal.note]
        having = held(self.parts, deal, part, self.users, self.user_names)
        return self.federated(name, having, notes, scheme, seed)

    def federated(
        self, name: str, having: Held, notes: Sequence[str] = (), scheme: Partition | None = None, seed: int = 0
    ) -> FederatedData:
        """These examples, held so: standardised by what is trained on, and skewed as a partition says."""
        columns, features = self.columns, None
        if self.standardise is not None:
            train = having.clients["train"].rows(having.index)
            columns, features = self.standardised(train)
            columns = without_unseen(
                self.name, columns, features, train, is_shared=len(having.clients["train"].size) > 1
            )
        if scheme is not None and scheme.change:
            columns = scheme.change(columns, having.owners(len(columns["y"])), np.random.default_rng([seed, 0xFEA7]))
        return FederatedData(
            name=name + (scheme.skew if scheme else ""),
            columns=columns,
            classes=self.classes,
            index=having.index,
            clients=having.clients,
            central=having.central,
            client_names=having.names,
            class_names=self.class_names,
            note="; ".join(note for note in (*notes, having.note) if note),
            skew=scheme.skew if scheme else "",
            features=features,
            images=bool(self.images),
            read_as=self.read_as,
        )

    def standardised(self, train: Int[np.ndarray, " train"]) -> tuple[Columns, Features]:
        """The columns, their numbers (x - mean)/deviation of the training examples and 0 where they are missing; and
        what they are called and were scaled by.
        """
        assert self.standardise is not None
        x, axes = self.columns["x"], tuple(range(self.columns["x"].ndim - 1))
        step = max(1, BLOCK // max(1, int(np.prod(x.shape[1:]))))
        seen = np.sort(train)
        blocks = [seen[start : start + step] for start in range(0, len(seen), step)]
        infinite = next((block[row] for block in blocks for row in np.nonzero(np.isinf(x[block]))[0][:1]), None)
        if infinite is not None:
            raise DataError(f"row {infinite} of column x of {self.name} holds infinity: correct or drop it")
        count = np.maximum(sum((~np.isnan(x[block])).sum(axis=axes) for block in blocks), 1)
        mean = sum(np.nansum(x[block], axis=axes, dtype=np.float64) for block in blocks) / count
        squares = sum(np.nansum((x[block] - mean) ** 2, axis=axes, dtype=np.float64) for block in blocks)
        deviation = np.sqrt(squares / count)
        mean = np.where(self.standardise, mean, 0)
        scale = np.where(self.standardise & (deviation > 1e-12 * np.abs(mean)) & (deviation > 0), deviation, 1)
        warn_of_rounding(self.name, "x", (x[:: max(1, len(x) // 4096)] - mean) / scale)
        scaled = np.empty(x.shape, np.float32)
        for start in range(0, len(x), step):
            rows = x[start : start + step]
            scaled[start : start + step] = np.where(np.isnan(rows), 0, (rows - mean) / scale)
        names = self.features or [f"feature {i}" for i in range(len(self.standardise))]
        sources = self.feature_columns or names
        return {**self.columns, "x": scaled}, Features(names, self.standardise, mean, scale, sources)

    def _examples(self) -> Examples:
        y, users = self.columns["y"], self.users
        labels = y[self.train] if y.ndim == 1 and y.dtype.kind != "f" else None
        whose = users[self.train] if users is not None else None
        return Examples(labels, self.classes, whose, self.user_names, len(self.train))

    def _split(
        self, deal: Deal, split: Split | None, labels: np.ndarray | None, rng: np.random.Generator
    ) -> Int[np.ndarray, " m"]:
        """The part of each dealt row."""
        if split is None:
            return np.full(len(deal.rows), TRAIN, np.int8)
        if split.by_label and labels is None:
            raise DataError(f"the split {split.name} goes by class, but {self.name} has no single class an example")
        for _, name in JUDGED:
            own = self.parts[name]
            if getattr(split.shares, name) and len(own):
                raise DataError(
                    f"{self.name} has a {name} set of its own ({len(own):,} examples): split with {name}=0, or pool() "
                    "the data set first (--pool yes)"
                )
        part = split.assign(deal, labels[deal.rows] if labels is not None else None, rng)
        if split.by_client:
            self._check_split(deal, part, split)
        return part

    def _check_split(self, deal: Deal, part: np.ndarray, split: Split) -> None:
        trained = np.bincount(deal.owner[part == TRAIN], minlength=len(deal.sizes))
        if (trained < 1).any():
            client = int(np.argmax(trained < 1))
            whose = f"client {client}" if deal.users is None else f"user {self.user_names[deal.users[client]]}"
            raise DataError(
                f"{whose} has {counted(int(deal.sizes[client]), 'example', 'examples')}, too few to split for "
                f"training, validation and testing: leave out those with fewer than {split.shares.least()} (least), "
                "or use fewer clients"
            )
