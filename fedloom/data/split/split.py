"""Split: which of the dealt examples are for training, validation and testing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedloom.errors import number, require

if TYPE_CHECKING:
    from jaxtyping import Int

    from fedloom.data.partition.partition import Deal

PARTS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)
JUDGED = ((VALIDATION, "validation"), (TEST, "test"))
"""The parts that are not trained on."""


@dataclass(frozen=True)
class Shares:
    """The shares of the data that are for validation and for testing; the rest is for training.

    The test part is taken first, and of what is left the share val/(1 - test) for validation, so that both are shares
    of the whole. Numbers are rounded up, as scikit-learn does.

    >>> [Shares(0.2, 0.2).sizes(np.array([n])).ravel().tolist() for n in (10, 7, 3)]
    [[6, 2, 2], [3, 2, 2], [1, 1, 1]]
    """

    validation: float
    test: float

    def __post_init__(self) -> None:
        for name in ("validation", "test"):
            number(name, getattr(self, name), "at least 0 and below 1", lambda share: 0 <= share < 1)
        require(self.validation + self.test < 1, "validation + test", "below 1", self.validation + self.test)

    def sizes(self, n: Int[np.ndarray, " groups"]) -> Int[np.ndarray, "3 groups"]:
        """How many of n examples are for training, validation and testing."""
        test = _up(self.test * n)
        validation = _up(self.validation / (1 - self.test) * (n - test))
        return np.stack([n - test - validation, validation, test])

    def least(self) -> int:
        """The fewest examples of which something is left for training.

        >>> Shares(0.2, 0.2).least()
        3
        """
        n = np.arange(1, min(10**6, int(3 / (1 - self.validation - self.test))) + 3)
        return int(n[np.argmax(self.sizes(n)[TRAIN] > 0)])


@dataclass(frozen=True)
class Split:
    """A way of splitting what was dealt.

    Arguments:
        name: what it is called in tables.
        shares: how much goes where.
        assign: (who got what, labels of the dealt rows or ``None``, random generator) → the part of each dealt row.
        by_client: whether every client's data is split, so that each has all parts.
        by_label: whether it needs the class of every example.
    """

    name: str
    shares: Shares
    assign: Callable[[Deal, np.ndarray | None, np.random.Generator], Int[np.ndarray, " m"]]
    by_client: bool = True
    by_label: bool = False


def _up(x: np.ndarray) -> np.ndarray:
    """Rounded up; 3.0000000000000004 is 3."""
    return np.ceil(np.round(x, 9)).astype(np.int64)
