"""Stratified: split every client's data in the same shares."""

from __future__ import annotations

import numpy as np

from fedloom.data.order import grouped, shuffled, starts, within
from fedloom.data.partition.partition import Deal
from fedloom.data.split.split import TEST, TRAIN, VALIDATION, Shares, Split


def stratified(validation: float = 0.2, test: float = 0.2, *, by_label: bool = False) -> Split:
    """Split every client's data at random; the union of the parts is the *global user*, in whom everyone is
    represented in proportion.

    Arguments:
        validation, test: the shares of each client's data.
        by_label: keep each client's mix of classes in its parts, as nearly as whole examples allow.

    >>> deal = Deal(np.arange(10), np.array([5, 5]))
    >>> parts = stratified().assign(deal, None, np.random.default_rng(0))
    >>> [np.bincount(parts[:5]).tolist(), np.bincount(parts[5:]).tolist()]
    [[3, 1, 1], [3, 1, 1]]
    """
    shares = Shares(validation, test)

    def assign(deal: Deal, labels: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
        order = shuffled(deal.sizes, rng)
        n, (_, validations, tests) = deal.sizes, shares.sizes(deal.sizes)
        parts = np.empty(len(order), np.int8)
        if not by_label:
            place = within(n)
            taken = np.where(place < np.repeat(tests, n), TEST, VALIDATION)
            parts[order] = np.where(place < np.repeat(tests + validations, n), taken, TRAIN)
            return parts
        assert labels is not None
        order = order[grouped(labels[order], int(labels.max(initial=0)) + 1)]
        order = order[grouped(deal.owner[order], len(n))]
        parts[order] = TRAIN
        tested = spread(n, tests, rng)
        parts[order[tested]] = TEST
        rest = order[~tested]
        parts[rest[spread(n - tests, validations, rng)]] = VALIDATION
        return parts

    return Split("by-label" if by_label else "stratified", shares, assign, by_label=by_label)


def spread(n: np.ndarray, chosen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Of groups of n things one after another, which are chosen if exactly ``chosen`` of each are, as evenly spread as
    can be: thing i is where ⌊(i·chosen + r)/n⌋ steps up, for a random r below n. Of any stretch of a group the number
    chosen is its share to one, so in a group sorted by label every label has its share.

    >>> spread(np.array([6, 3]), np.array([2, 3]), np.random.default_rng(0)).astype(int).tolist()
    [1, 0, 0, 1, 0, 0, 1, 1, 1]
    """
    offset = rng.integers(0, np.maximum(n, 1))
    size, wanted, r = (np.repeat(a, n) for a in (n, chosen, offset))
    i = np.arange(len(size)) - np.repeat(starts(n), n)
    return (i * wanted + r + wanted) // size > (i * wanted + r) // size
