"""Federated averaging (McMahan et al. 2017, Algorithm 1)."""

from __future__ import annotations

from typing import Any

from fedloom.algorithms.method import Method
from fedloom.algorithms.server import Server, server
from fedloom.combine.combiner import Combiner, mean
from fedloom.combine.weighting import Weighting, by_size
from fedloom.errors import require
from fedloom.local import Local, given
from fedloom.routing import OneServer, Routing


def fedavg(
    *,
    fraction: float = 0.1,
    selection: str = "uniform",
    local: Local | None = None,
    server: Server = server(),  # noqa: B008
    weighting: Weighting = by_size,
    combiner: Combiner = mean,
    routing: Routing | None = None,
    **local_options: Any,
) -> Method:
    """Return federated averaging: clients train on their own, and the server averages what they learned.

        m ← max(C·K, 1) clients at random
        each works locally from w:        w_k
        w ← server(w, Σ_k p_k (w_k - w)), with p_k the weighting's share of client k

    Args:
        fraction: C, the share of clients in a round; 0 is one client.
        selection: the way in which they are selected: ``uniform``, ``fixed``, ``size``, ``round-robin`` or ``once``;
            see :mod:`fedloom.selection`.
        local: the work of a client; or give the arguments of :func:`fedloom.local.sgd` here: ``lr``, ``epochs``,
            ``batch_size``, ``decay``, ``optimizer``.
        server: the server's step with the mean update; plain averaging by default.
        weighting: the weight of each update; the client's number of examples by default.
        combiner: what is made of the updates; their weighted mean by default.
        routing: which model each client trains, in place of one model for all; then give the weighting there.

    >>> fedavg(fraction=0.1, epochs=5, batch_size=10, lr=0.1).local.batches.epochs
    5
    """
    work = given(local, local_options, "fraction", "selection", "local", "server", "weighting", "combiner", "routing")
    alone = routing is None or weighting is by_size
    require(alone, "weighting", "given to the routing, which has one", weighting)
    return Method(work, routing or OneServer(weighting), server, combiner, fraction, selection).checked()
