"""Partition: a named way of dealing examples to clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedloom.errors import DataError, whole

if TYPE_CHECKING:
    from jaxtyping import Int

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Examples:
    """What a partition knows of the training examples.

    Arguments:
        labels: the class of each; ``None`` where an example has no single class (text).
        classes: how many classes there are.
        users: who made each example, as a number; ``None`` where nobody knows.
        names: what those users are called.
    """

    labels: Int[np.ndarray, " n"] | None
    classes: int
    users: Int[np.ndarray, " n"] | None = None
    names: Sequence[str] = ()
    size: int = -1

    def __len__(self) -> int:
        return self.size if self.labels is None else len(self.labels)


@dataclass(frozen=True)
class Deal:
    """Who got what.

    Arguments:
        rows: the examples dealt, one client after another.
        sizes: how many each client got.
        note: what was done, in a few words.
        users: where clients are users, which user each client is.
    """

    rows: Int[np.ndarray, " m"]
    sizes: Int[np.ndarray, " clients"]
    note: str = ""
    users: Int[np.ndarray, " clients"] | None = None

    @property
    def owner(self) -> Int[np.ndarray, " m"]:
        """The client of each row."""
        return np.repeat(np.arange(len(self.sizes), dtype=np.int32), self.sizes)


@dataclass(frozen=True)
class Partition:
    """A way of dealing examples to clients.

    Arguments:
        name: what it is called in tables.
        clients: how many clients there will be; ``None`` where the data says.
        assign: (examples, random generator) → who gets what.
        by_label: whether it needs the class of every example.
        change: (columns, the client of each row or -1, random generator) → columns as each client sees them; ``None``
            where clients see the examples as they are.
        skew: what that change is called.
    """

    name: str
    clients: int | None
    assign: Callable[[Examples, np.random.Generator], Deal]
    by_label: bool = False
    change: Callable[[Columns, np.ndarray, np.random.Generator], Columns] | None = None
    skew: str = ""

    def __post_init__(self) -> None:
        if self.clients is not None:
            whole("clients", self.clients, 1)

    def deal(self, examples: Examples | np.ndarray, rng: np.random.Generator) -> Deal:
        """Deal examples, or just labels, to clients.

        >>> from fedloom.data.partition.iid import iid
        >>> iid(clients=2).deal(np.array([0, 1, 0]), np.random.default_rng(0)).sizes.tolist()
        [2, 1]
        """
        if isinstance(examples, np.ndarray):
            examples = Examples(examples, int(examples.max(initial=0)) + 1)
        if self.clients is not None and self.clients > len(examples):
            raise DataError(
                f"{self.clients:,} clients cannot share {len(examples):,} training examples: "
                "use at most as many clients as examples"
            )
        if self.by_label and examples.labels is None:
            raise DataError(
                f"the partition {self.name} deals by class, but these examples have no single class each: "
                "use natural, iid, lognormal or power"
            )
        return self.assign(examples, rng)


def even(n: int, parts: int) -> np.ndarray:
    """N things in parts that differ by one at most.

    >>> even(10, 4).tolist()
    [3, 3, 2, 2]
    """
    return np.full(parts, n // parts) + (np.arange(parts) < n % parts)


def between(sizes: np.ndarray) -> str:
    """The range of some numbers.

    >>> between(np.array([3, 1200])), between(np.array([7, 7]))
    ('3 to 1,200', '7')
    """
    low, high = int(sizes.min()), int(sizes.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def counted(n: int, one: str, many: str) -> str:
    """A number and its noun.

    >>> counted(1, "client", "clients"), counted(2000, "client", "clients")
    ('1 client', '2,000 clients')
    """
    return f"{n:,} {one if n == 1 else many}"
