"""Description: what a federated data set looks like, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.federated import FederatedData
from fedloom.errors import ArgumentError

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True)
class Description:
    """What a federated data set looks like.

    Arguments:
        name, note: those of the data.
        clients: how many clients train.
        parts: part → how many examples it has, of clients and of nobody.
        sizes: how many training examples each client has.
        counts: how many training examples of each class each client has; ``None`` where examples have no single class.
        class_names, client_names: what they are called; clients may have no names.
        example: the shape and type of one example.
        inputs: what models see of it.
    """

    name: str
    note: str
    clients: int
    parts: dict[str, tuple[int, int]]
    sizes: Int[np.ndarray, " clients"]
    counts: Int[np.ndarray, "clients classes"] | None
    class_names: list[str]
    client_names: list[str]
    example: str
    inputs: str

    @property
    def entropies(self) -> Float[np.ndarray, " clients"] | None:
        """The entropy of each client's labels, in bits: 0 is one class only."""
        return None if self.counts is None else entropy(self.counts)

    def summary(self) -> dict[str, Any]:
        """The figures that people compare."""
        found: dict[str, Any] = {
            "data": self.name,
            "example": self.example,
            "inputs": self.inputs,
            "clients": self.clients,
            "examples": {part: owned + nobodys for part, (owned, nobodys) in self.parts.items()},
            "size_min": int(self.sizes.min()),
            "size_median": float(np.median(self.sizes)),
            "size_max": int(self.sizes.max()),
            "size_gini": gini(self.sizes),
        }
        if self.counts is not None and self.entropies is not None:
            has = (self.counts > 0).sum(axis=1)
            found |= {
                "classes": self.counts.shape[1],
                "class_names": self.class_names,
                "classes_per_client_median": float(np.median(has)),
                "label_entropy_mean": float(self.entropies.mean()),
                "label_entropy_of_all": float(entropy(self.counts.sum(axis=0, keepdims=True))[0]),
            }
        return found | ({"note": self.note} if self.note else {})


def describe(data: FederatedData) -> Description:
    """What a federated data set looks like.

    >>> from fedloom.data import mnist, partition
    >>> found = describe(mnist().partition(partition.shards(clients=100, per_client=2))).summary()
    >>> found["clients"], found["size_max"], found["classes_per_client_median"]
    (100, 600, 2.0)
    """
    if not isinstance(data, FederatedData):
        raise ArgumentError("data", "FederatedData, that is a Dataset after partition()", data)
    train = data.clients["train"]
    x, y = data.columns["x"], data.columns["y"]
    counts = None
    if y.ndim == 1 and y.dtype.kind != "f":
        cells = train.owner.astype(np.int64) * data.classes + y[train.rows(data.index)].astype(np.int64)
        counts = np.bincount(cells, minlength=len(data) * data.classes).reshape(len(data), data.classes)
    parts = {}
    for part in data.splits:
        owned = int(data.clients[part].size.sum()) if part in data.clients else 0
        parts[part] = owned, len(data.central.get(part, ()))
    names = list(data.class_names) or [str(c) for c in range(data.classes)]
    shape = " × ".join(map(str, x.shape[1:])) or "1"
    example = f"{shape} {x.dtype}"
    return Description(
        data.name,
        data.note,
        len(data),
        parts,
        train.size,
        counts,
        names,
        list(data.client_names),
        example,
        data.inputs,
    )


def gini(sizes: Int[np.ndarray, " clients"]) -> float:
    """The Gini coefficient: 0 where all are equal, near 1 where one has everything.

    Σᵢ (2i - n - 1)·xᵢ / (n·Σᵢ xᵢ), x in ascending order and i from 1.

    >>> gini(np.array([5, 5])), gini(np.array([0, 0, 0, 12]))
    (0.0, 0.75)
    """
    x, n = np.sort(sizes).astype(np.float64), len(sizes)
    return float(((2 * np.arange(1, n + 1) - n - 1) * x).sum() / (n * x.sum()))


def entropy(counts: Int[np.ndarray, "groups classes"]) -> Float[np.ndarray, " groups"]:
    """-Σ p·log₂ p of each row.

    >>> entropy(np.array([[5, 5], [7, 0]])).tolist()
    [1.0, 0.0]
    """
    p = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return -(p * np.log2(np.where(p > 0, p, 1))).sum(axis=1) + 0.0
