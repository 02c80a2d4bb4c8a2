"""Naive: cut the whole data set, whoever's it is."""

from __future__ import annotations

import numpy as np

from fedloom.data.partition.partition import Deal
from fedloom.data.split.split import Shares, Split


def naive(validation: float = 0.2, test: float = 0.2, *, shuffle: bool = False) -> Split:
    """Cut the whole data set into three, client after client as it stands, or shuffled.

    As it stands, the last clients are for testing only, and nobody trains on them; shuffled, everybody is represented
    about in proportion, but not exactly.

    >>> deal = Deal(np.arange(5), np.array([3, 2]))
    >>> naive().assign(deal, None, np.random.default_rng(0)).tolist()
    [0, 0, 0, 1, 2]
    """
    shares = Shares(validation, test)

    def assign(deal: Deal, labels: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG001
        sizes = shares.sizes(np.array([len(deal.rows)])).ravel()
        parts = np.repeat(np.arange(3, dtype=np.int8), sizes)
        return rng.permutation(parts) if shuffle else parts

    return Split("shuffled" if shuffle else "naive", shares, assign, by_client=False)
