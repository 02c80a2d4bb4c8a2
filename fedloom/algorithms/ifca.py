"""IFCA: a few models, and every client trains the one that suits its data (Ghosh et al. 2020)."""

from __future__ import annotations

from typing import Any

from fedloom.algorithms.fedavg import fedavg
from fedloom.algorithms.method import Method
from fedloom.combine.weighting import Weighting, by_size
from fedloom.routing import Clusters


def ifca(clusters: int = 2, *, weighting: Weighting = by_size, **options: Any) -> Method:
    """Return the method in which a few models begin apart, and each client trains the one with the lowest loss.

    The loss is that on the client's training data.

    Args:
        clusters: the number of models.
        weighting: the weight of each update in its cluster.
        options: the other arguments of :func:`fedavg`.

    >>> ifca(3, lr=0.1).routing.count
    3
    """
    return fedavg(routing=Clusters(weighting, clusters), **options)
