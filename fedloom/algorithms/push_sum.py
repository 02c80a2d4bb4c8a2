"""Push-sum: stochastic gradient push along a directed graph (Assran et al. 2019)."""

from __future__ import annotations

from typing import Any

from fedloom.algorithms.dpa_sgd import OPTIONS, Along, mixed
from fedloom.algorithms.method import Method
from fedloom.local import given
from fedloom.mixing.gossip import PUSH
from fedloom.routing import PushSumModels


def push_sum(topology: Along = "ring", *, period: int = 5, **options: Any) -> Method:
    """Return stochastic gradient push: every client takes τ steps, then sends its model along a directed graph.

    Args:
        topology: by name (see :func:`fedloom.mixing.topology`), a CSV file of pairs, a graph (also networkx's), or
            the result of :func:`fedloom.mixing.pushed`.
        period: τ, the steps between two exchanges.
        options: the arguments of :func:`fedloom.local.sgd`, and the options of the topology.

    >>> push_sum(lr=0.05).describe()["weights"]
    'push'
    """
    mixer = mixed(topology, PUSH, options)
    work = given(None, {"period": period, **options}, "topology", *OPTIONS)
    return Method(work, PushSumModels(mixer), fraction=1.0).checked()
