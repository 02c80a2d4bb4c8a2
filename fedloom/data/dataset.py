"""Dataset: examples in flat columns, before anybody owns them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.federated import FederatedData, Ranges
from fedloom.errors import require

if TYPE_CHECKING:
    from fedloom.data.partition.partition import Partition


@dataclass(frozen=True)
class Dataset:
    """All examples in flat columns (``x``, ``y``), and which of them are for training, validation and testing.

    >>> data = Dataset("toy", {"x": np.arange(6.0), "y": np.array([0, 0, 0, 1, 1, 1])}, classes=2, train=np.arange(6))
    >>> data.hold_out(2, seed=0)
    Dataset('toy': 4 train, 2 validation, 0 test examples)
    """

    name: str
    columns: dict[str, np.ndarray]
    classes: int
    train: np.ndarray
    validation: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    test: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))

    def __repr__(self) -> str:
        sizes = f"{len(self.train):,} train, {len(self.validation):,} validation, {len(self.test):,} test"
        return f"Dataset({self.name!r}: {sizes} examples)"

    def hold_out(self, validation: int, seed: int = 0) -> Dataset:
        """Draw a validation set at random from the training examples, before any client gets them."""
        most = len(self.train) - 1
        require(0 <= validation <= most, "validation", f"between 0 and {most:,}", validation)
        order = np.random.default_rng([seed, 0x9A11D]).permutation(self.train)
        return replace(self, validation=np.sort(order[:validation]), train=np.sort(order[validation:]))

    def partition(self, scheme: Partition, seed: int = 0) -> FederatedData:
        """Deal the training examples to clients."""
        labels = self.columns["y"][self.train]
        chosen, sizes = scheme.deal(labels, np.random.default_rng([seed, 0xDEA1]))
        start = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
        return FederatedData(
            name=f"{self.name}/{scheme.name}",
            columns=self.columns,
            classes=self.classes,
            index=self.train[chosen].astype(np.int32),
            clients={"train": Ranges(start, sizes.astype(np.int32))},
            central={"validation": self.validation.astype(np.int32), "test": self.test.astype(np.int32)},
        )
