"""IID: shuffle everything, deal it out evenly (McMahan et al. 2017, section 3)."""

from __future__ import annotations

import numpy as np

from fedloom.data.partition.partition import Deal, Examples, Partition, between, even
from fedloom.errors import whole


def iid(clients: int = 100) -> Partition:
    """Shuffle everything and deal it out evenly.

    >>> deal = iid(clients=3).deal(np.zeros(7, int), np.random.default_rng(0))
    >>> deal.sizes.tolist(), sorted(deal.rows.tolist())
    ([3, 2, 2], [0, 1, 2, 3, 4, 5, 6])
    """
    whole("clients", clients, 1)

    def assign(examples: Examples, rng: np.random.Generator) -> Deal:
        sizes = even(len(examples), clients)
        note = f"shuffled, {between(sizes)} examples a client"
        return Deal(rng.permutation(len(examples)), sizes, note)

    return Partition("iid", clients, assign)
