"""Partition: a named way of dealing examples to clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedloom.errors import DataError, require


@dataclass(frozen=True)
class Partition:
    """A way of dealing examples to clients.

    Arguments:
        name: what it is called in tables.
        clients: how many clients there will be.
        assign: (labels, random generator) → (rows, client after client; how many rows each client gets).
    """

    name: str
    clients: int
    assign: Callable[[np.ndarray, np.random.Generator], tuple[np.ndarray, np.ndarray]]

    def __post_init__(self) -> None:
        require(self.clients >= 1, "clients", "at least 1", self.clients)

    def deal(self, labels: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The rows of all clients, one client after another, and how many each gets."""
        if self.clients > len(labels):
            raise DataError(
                f"{self.clients:,} clients cannot share {len(labels):,} training examples: "
                "use at most as many clients as examples"
            )
        return self.assign(labels, rng)


def even(n: int, parts: int) -> np.ndarray:
    """N things in parts that differ by one at most.

    >>> even(10, 4).tolist()
    [3, 3, 2, 2]
    """
    return np.full(parts, n // parts) + (np.arange(parts) < n % parts)
