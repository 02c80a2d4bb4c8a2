"""Shards: sort by label, cut into equal shards, deal a few to each client (McMahan et al. 2017, section 3)."""

from __future__ import annotations

import numpy as np

from fedloom.data.order import gather, grouped, starts
from fedloom.data.partition.partition import Deal, Examples, Partition, between, even
from fedloom.errors import DataError, whole


def shards(clients: int = 100, per_client: int = 2) -> Partition:
    """Sort by label, cut into ``clients × per_client`` equal shards, deal ``per_client`` to each client at random.

    The pathological non-IID split of federated averaging: with MNIST, 100 clients and two shards each, a shard has 300
    images and most clients see two digits only.

    >>> labels = np.array([1, 0, 1, 0, 1, 0, 1, 0])
    >>> deal = shards(clients=4, per_client=1).deal(labels, np.random.default_rng(0))
    >>> [sorted(set(labels[part].tolist())) for part in np.split(deal.rows, np.cumsum(deal.sizes)[:-1])]
    [[1], [0], [0], [1]]
    """
    whole("clients", clients, 1)
    whole("per_client", per_client, 1)

    def assign(examples: Examples, rng: np.random.Generator) -> Deal:
        total = clients * per_client
        if total > len(examples):
            raise DataError(
                f"{clients:,} clients × {per_client} shards need at least {total:,} training examples, "
                f"but there are {len(examples):,}: use fewer clients or fewer shards each"
            )
        assert examples.labels is not None
        order = grouped(examples.labels, examples.classes)
        sizes = even(len(examples), total)
        dealt = rng.permutation(total)
        rows = gather(order, starts(sizes)[dealt], sizes[dealt])
        note = f"{total:,} shards of {between(sizes)} examples, {per_client} a client"
        return Deal(rows, sizes[dealt].reshape(clients, per_client).sum(axis=1), note)

    return Partition(f"shards{per_client}", clients, assign, by_label=True)
