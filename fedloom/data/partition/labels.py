"""Labels: every client has a few classes only (Li et al. 2022, "quantity-based label imbalance")."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedloom.data.order import grouped
from fedloom.data.partition.partition import Deal, Examples, Partition, between, counted
from fedloom.data.partition.resize import topped_up
from fedloom.errors import require, whole


def labels(clients: int = 100, per_client: int = 2, *, least: int = 1) -> Partition:
    """Every client has ``per_client`` classes; the examples of a class are shared evenly by those who have it.

    Every class has a client: one of a client's classes goes round, the others are random. The note says if a class has
    fewer examples than clients. A client with fewer than ``least`` examples is topped up with random ones.

    >>> y = np.repeat(np.arange(4), 6)
    >>> deal = labels(clients=4, per_client=2).deal(y, np.random.default_rng(0))
    >>> [sorted(set(y[part].tolist())) for part in np.split(deal.rows, np.cumsum(deal.sizes)[:-1])]
    [[0, 3], [1, 3], [0, 2], [0, 3]]
    """
    whole("clients", clients, 1)
    whole("per_client", per_client, 1)
    whole("least", least, 1)

    def assign(examples: Examples, rng: np.random.Generator) -> Deal:
        assert examples.labels is not None
        present, compact = np.unique(examples.labels, return_inverse=True)
        require(per_client <= len(present), "per_client", f"at most {len(present)}, the number of classes", per_client)
        enough = clients * per_client >= len(present)
        require(enough, "clients × per_client", f"at least {len(present)}, so that every class has a client",
                clients * per_client)  # fmt: skip
        has = _chosen(clients, len(present), per_client, rng)
        owner = np.empty(len(compact), np.int32)
        order = rng.permutation(len(compact))
        order = order[grouped(compact[order], len(present))]
        counts = np.bincount(compact)
        for c, rows in enumerate(np.split(order, np.cumsum(counts)[:-1])):
            holders = rng.permutation(np.flatnonzero(has[:, c]))
            owner[rows] = holders[np.arange(len(rows)) % len(holders)]
        deal = topped_up(Deal(grouped(owner, clients), np.bincount(owner, minlength=clients)), least, rng)
        short = int((counts < has.sum(axis=0)).sum())
        few = f"{counted(short, 'class has', 'classes have')} fewer examples than clients" if short else ""
        note = f"{per_client} of {len(present)} classes a client, {between(deal.sizes)} examples each"
        return replace(deal, note="; ".join(text for text in (note, few, deal.note) if text))

    return Partition(f"labels{per_client}", clients, assign, by_label=True)


def _chosen(clients: int, classes: int, per_client: int, rng: np.random.Generator) -> np.ndarray:
    """Which classes each client has: (clients, classes), ``per_client`` in each row and one in each column at least."""
    score = rng.random((clients, classes), dtype=np.float32)
    client, label = np.arange(max(clients, classes)) % clients, np.arange(max(clients, classes)) % classes
    score[client, label] = -1
    has = np.zeros((clients, classes), bool)
    np.put_along_axis(has, np.argpartition(score, per_client - 1, axis=1)[:, :per_client], True, axis=1)
    return has
