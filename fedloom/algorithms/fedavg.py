"""Federated averaging (McMahan et al. 2017, Algorithm 1)."""

from __future__ import annotations

from typing import Any

from fedloom.algorithms.algorithm import Algorithm
from fedloom.algorithms.server import Server, server
from fedloom.combine.combiner import Combiner, mean
from fedloom.combine.weighting import Weighting, by_size
from fedloom.local import Local, given


def fedavg(
    *,
    fraction: float = 0.1,
    local: Local | None = None,
    server: Server = server(),  # noqa: B008
    weighting: Weighting = by_size,
    combiner: Combiner = mean,
    **local_options: Any,
) -> Algorithm:
    """Federated averaging: clients train on their own, the server averages what they learned.

    Arguments:
        fraction: C, the share of clients in a round; 0 is one client.
        local: what a client does; or give the arguments of :func:`fedloom.local.sgd` here: ``lr``, ``epochs``,
            ``batch_size``, ``decay``, ``optimizer``.
        server: what the server does with the mean update; plain averaging by default.
        weighting: how much each reply counts; by the client's number of examples by default.
        combiner: what is made of the replies; their weighted mean by default.

    >>> fedavg(fraction=0.1, epochs=5, batch_size=10, lr=0.1).local.batches.epochs
    5
    """
    work = given(local, local_options, "fraction", "local", "server", "weighting", "combiner")
    return Algorithm(work, server, weighting, fraction, combiner).checked()
