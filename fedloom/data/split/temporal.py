"""Temporal: train on what came first, test on what came last."""

from __future__ import annotations

import numpy as np

from fedloom.data.order import grouped, within
from fedloom.data.partition.partition import Deal
from fedloom.data.split.split import TEST, TRAIN, VALIDATION, Shares, Split


def temporal(validation: float = 0.2, test: float = 0.2) -> Split:
    """Of every client's examples, in the order in which the source has them, the first are for training, the next for
    validation, the last for testing (McMahan et al. 2017 split each role of Shakespeare so, 80/20).

    >>> deal = Deal(np.array([4, 0, 2, 1, 3]), np.array([3, 2]))
    >>> temporal(validation=0, test=0.3).assign(deal, None, np.random.default_rng(0)).tolist()
    [2, 0, 0, 0, 2]
    """
    shares = Shares(validation, test)

    def assign(deal: Deal, labels: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG001
        order = np.argsort(deal.rows, kind="stable")
        order = order[grouped(deal.owner[order], len(deal.sizes))]
        place = within(deal.sizes)
        train, validations, _ = shares.sizes(deal.sizes)
        later = np.where(place < np.repeat(train + validations, deal.sizes), VALIDATION, TEST)
        parts = np.empty(len(order), np.int8)
        parts[order] = np.where(place < np.repeat(train, deal.sizes), TRAIN, later)
        return parts

    return Split("temporal", shares, assign)
