"""Dataset: examples in flat columns, before anybody owns them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.federated import FederatedData, Ranges
from fedloom.data.order import grouped, starts
from fedloom.data.partition.partition import Columns, Deal, Examples, Partition, counted
from fedloom.data.split.split import PARTS, TEST, TRAIN, VALIDATION, Split
from fedloom.errors import DataError, require

if TYPE_CHECKING:
    from jaxtyping import Bool, Int


def _none() -> np.ndarray:
    return np.zeros(0, np.int32)


@dataclass(frozen=True)
class Dataset:
    """All examples in flat columns (``x``, ``y``), and which of them are for training, validation and testing.

    Arguments:
        name: what it is called in tables.
        columns: ``x`` and ``y``, one row an example; the rows of one user in the order in which they were made.
        classes: how many classes the labels ``y`` count.
        train, validation, test: example numbers.
        users: who made each example, as a number below ``len(user_names)``; ``None`` where nobody knows.
        user_names, class_names: what they are called; class names may be left empty.
        standardise: which features (along the last axis of ``x``) are shifted and scaled by the mean and deviation of
            the training examples, their missing values (NaN) filled with the mean; ``None``: none.
        note: what a reader would want to know of how it was read.

    >>> data = Dataset("toy", {"x": np.arange(6.0), "y": np.array([0, 0, 0, 1, 1, 1])}, classes=2, train=np.arange(6))
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
    note: str = ""

    def __repr__(self) -> str:
        sizes = f"{len(self.train):,} train, {len(self.validation):,} validation, {len(self.test):,} test"
        whose = f" of {len(self.user_names):,} users" if self.users is not None else ""
        return f"Dataset({self.name!r}: {sizes} examples{whose})"

    def hold_out(self, validation: int, seed: int = 0) -> Dataset:
        """Draw a validation set at random from the training examples, before any client gets them."""
        most = len(self.train) - 1
        require(0 <= validation <= most, "validation", f"between 0 and {most:,}", validation)
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
        if not len(self.train):
            raise DataError(f"{self.name} has no training examples to deal")
        deal = scheme.deal(self._examples(), np.random.default_rng([seed, 0xDEA1]))
        part = self._split(deal, split, np.random.default_rng([seed, 0x5B117]))
        rows, owner, part, central = self._owned(deal, part)
        columns = self.standardised(rows[part == TRAIN])
        if scheme.change:
            whose = np.full(len(columns["y"]), -1, np.int32)
            whose[rows] = owner
            columns = scheme.change(columns, whose, np.random.default_rng([seed, 0xFEA7]))
        return self._federated(scheme, split, deal, columns, rows, owner, part, central)

    def standardised(self, train: Int[np.ndarray, " train"]) -> Columns:
        """The columns, their numbers (x - mean)/deviation of the training examples and 0 where they are missing."""
        if self.standardise is None:
            return self.columns
        x = self.columns["x"]
        axes = tuple(range(x.ndim - 1))
        seen = np.sort(train)
        known = ~np.isnan(x[seen])
        count = np.maximum(known.sum(axis=axes), 1)
        mean = np.where(known, x[seen], 0).sum(axis=axes, dtype=np.float64) / count
        deviation = np.sqrt((np.where(known, x[seen] - mean, 0) ** 2).sum(axis=axes, dtype=np.float64) / count)
        mean = np.where(self.standardise, mean, 0).astype(np.float32)
        scale = np.where(self.standardise & (deviation > 1e-12), deviation, 1).astype(np.float32)
        return {**self.columns, "x": np.nan_to_num((x - mean) / scale, nan=0.0, posinf=np.inf, neginf=-np.inf)}

    def _examples(self) -> Examples:
        y, users = self.columns["y"], self.users
        labels = y[self.train] if y.ndim == 1 and np.issubdtype(y.dtype, np.integer) else None
        whose = users[self.train] if users is not None else None
        return Examples(labels, self.classes, whose, self.user_names, len(self.train))

    def _split(self, deal: Deal, split: Split | None, rng: np.random.Generator) -> Int[np.ndarray, " m"]:
        """The part of each dealt row."""
        if split is None:
            return np.full(len(deal.rows), TRAIN, np.int8)
        labels = self._examples().labels
        if split.by_label and labels is None:
            raise DataError(f"the split {split.name} goes by class, but {self.name} has no single class an example")
        for name, share, own in (("validation", split.shares.validation, self.validation),
                                 ("test", split.shares.test, self.test)):  # fmt: skip
            if share and len(own):
                raise DataError(
                    f"{self.name} has a {name} set of its own ({len(own):,} examples): split with {name}=0, or pool() "
                    "the data set first"
                )
        part = split.assign(deal, labels[deal.rows] if labels is not None else None, rng)
        if split.by_client:
            self._check_split(deal, part, split)
        return part

    def _check_split(self, deal: Deal, part: np.ndarray, split: Split) -> None:
        trained = np.bincount(deal.owner[part == TRAIN], minlength=len(deal.sizes))
        if (trained < 1).any():
            client = int(np.argmax(trained < 1))
            n = np.arange(1, 100)
            enough = int(n[split.shares.sizes(n)[TRAIN] > 0][0])
            raise DataError(
                f"{self._called(deal, client)} has {counted(int(deal.sizes[client]), 'example', 'examples')}, too few "
                f"to split for training, validation and testing: leave out those with fewer than {enough} "
                "(least), or use fewer clients"
            )

    def _called(self, deal: Deal, client: int) -> str:
        return f"client {client}" if deal.users is None else f"user {self.user_names[deal.users[client]]}"

    def _owned(self, deal: Deal, part: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Rows with their owners and parts, and the examples that nobody owns. Where clients are users, a user's
        validation and test examples are its own too.
        """
        rows, owners, parts = [self.train[deal.rows]], [deal.owner], [part]
        central = {"validation": self.validation, "test": self.test}
        if deal.users is not None and self.users is not None:
            client = np.full(len(self.user_names), -1, np.int32)
            client[deal.users] = np.arange(len(deal.users))
            for code, name in ((VALIDATION, "validation"), (TEST, "test")):
                owner = client[self.users[central[name]]]
                rows.append(central[name][owner >= 0])
                owners.append(owner[owner >= 0])
                parts.append(np.full(len(rows[-1]), code, np.int8))
                central[name] = central[name][owner < 0]
        return np.concatenate(rows), np.concatenate(owners), np.concatenate(parts), central

    def _federated(
        self,
        scheme: Partition,
        split: Split | None,
        deal: Deal,
        columns: Columns,
        rows: np.ndarray,
        owner: np.ndarray,
        part: np.ndarray,
        central: dict[str, np.ndarray],
    ) -> FederatedData:
        """Everything in its place. Clients left with nothing to train on are nobody's: what they have is central."""
        trained = np.bincount(owner[part == TRAIN], minlength=len(deal.sizes)) > 0
        notes = [self.note, deal.note]
        if not trained.all():
            idle = ~trained[owner]
            for code, name in ((VALIDATION, "validation"), (TEST, "test")):
                central = {**central, name: np.concatenate([central[name], rows[idle & (part == code)]])}
            rows, owner, part = rows[~idle], (np.cumsum(trained) - 1)[owner[~idle]], part[~idle]
            gone = int((~trained).sum())
            notes.append(f"{counted(gone, 'client has', 'clients have')} nothing to train on and only test the model")
        clients = int(trained.sum())
        order = grouped(owner * np.int32(len(PARTS)) + part, clients * len(PARTS))
        sizes = np.bincount(owner * np.int32(len(PARTS)) + part, minlength=clients * len(PARTS))
        start = starts(sizes)
        ranges = {
            name: Ranges(start[code :: len(PARTS)].astype(np.int32), sizes[code :: len(PARTS)].astype(np.int32))
            for code, name in enumerate(PARTS)
            if code == TRAIN or sizes[code :: len(PARTS)].any()
        }
        names = [self.user_names[user] for user in deal.users[trained]] if deal.users is not None else ()
        return FederatedData(
            name="/".join([self.name, scheme.name, *([split.name] if split else [])]),
            columns=columns,
            classes=self.classes,
            index=rows[order].astype(np.int32),
            clients=ranges,
            central={name: examples.astype(np.int32) for name, examples in central.items()},
            client_names=names,
            class_names=self.class_names,
            note="; ".join(note for note in notes if note),
        )
