"""Affinity: every client has a favourite class, and something of everything else."""

from __future__ import annotations

import numpy as np

from fedloom.data.order import apportion, grouped, starts
from fedloom.data.partition.partition import Deal, Examples, Partition, between, even
from fedloom.errors import number, whole


def affinity(clients: int = 100, share: float = 0.8) -> Partition:
    """Deal clients of equal size, each with a favourite class, of which it has more than its share.

    First a share s of each client's examples is taken from its favourite class. The rest is drawn at random from all
    examples that are left, the favourite class among them. The expected share of the favourite class is therefore more
    than s: with r of the examples that are left being of that class, it is

        s + (1 - s)·r,   with C classes of equal size s + (1 - s)/C

    which is 0.9 for s = 0.8 and two classes. The note of the data says how much it came to. The number of clients that
    have a class as favourite is proportional to its examples; which clients is random.

    >>> y = np.repeat([0, 1], 50)
    >>> deal = affinity(clients=4, share=0.8).deal(y, np.random.default_rng(0))
    >>> [np.bincount(y[part]).tolist() for part in np.split(deal.rows, np.cumsum(deal.sizes)[:-1])]
    [[2, 23], [23, 2], [23, 2], [2, 23]]
    """
    whole("clients", clients, 1)
    number("share", share, "between 0 and 1", lambda share: 0 <= share <= 1)

    def assign(examples: Examples, rng: np.random.Generator) -> Deal:
        assert examples.labels is not None
        classes = examples.classes
        counts = np.bincount(examples.labels, minlength=classes)
        sizes = even(len(examples), clients)
        favourite = rng.permutation(np.repeat(np.arange(classes), apportion(counts, clients)))
        wanted = np.round(share * sizes).astype(np.int64)
        order = rng.permutation(len(examples))
        order = order[grouped(examples.labels[order], classes)]
        owner = np.full(len(order), -1, np.int32)
        got_least = share
        for c in range(classes):
            lovers = np.flatnonzero(favourite == c).astype(np.int32)
            if not len(lovers):
                continue
            demand = int(wanted[lovers].sum())
            got = wanted[lovers] if demand <= counts[c] else even(int(counts[c]), len(lovers))
            got_least = min(got_least, float((got / sizes[lovers]).min()))
            start = starts(counts)[c]
            owner[start : start + got.sum()] = np.repeat(lovers, got)
        rest = np.repeat(np.arange(clients, dtype=np.int32), sizes - np.bincount(owner[owner >= 0], minlength=clients))
        owner[owner < 0] = rng.permutation(rest)
        loved = np.bincount(owner, examples.labels[order] == favourite[owner], minlength=clients) / sizes
        note = f"{loved.min():.0%} to {loved.max():.0%} of a client is its favourite class (first {share:.0%}, then at "
        note += f"random from all that is left), {between(sizes)} examples each"
        few = f"; first only {got_least:.0%} where that class is too small"
        return Deal(order[grouped(owner, clients)], sizes, note + (few if got_least < share - 1 / sizes.min() else ""))

    return Partition(f"affinity{share:g}", clients, assign, by_label=True)
