"""IID: shuffle everything, deal it out evenly (McMahan et al. 2017, section 3)."""

from __future__ import annotations

import numpy as np

from fedloom.data.partition.partition import Partition, even


def iid(clients: int = 100) -> Partition:
    """Shuffle everything and deal it out evenly.

    >>> rows, sizes = iid(clients=3).deal(np.zeros(7), np.random.default_rng(0))
    >>> sizes.tolist(), sorted(rows.tolist())
    ([3, 2, 2], [0, 1, 2, 3, 4, 5, 6])
    """

    def assign(labels: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return rng.permutation(len(labels)), even(len(labels), clients)

    return Partition("iid", clients, assign)
