"""Decentralised periodic averaging SGD: no server; neighbours average now and then (He et al. 2019)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedloom.algorithms.method import Method
from fedloom.errors import require
from fedloom.local import given
from fedloom.mixing import Graph, Mixer, from_matrix, gossip, pushed
from fedloom.mixing import topology as along
from fedloom.mixing.gossip import PUSH, changes
from fedloom.mixing.graph import is_networkx
from fedloom.routing import OwnModels

Along = str | Graph | np.ndarray | Mixer | Any  # or a graph of networkx's, which need not be installed
OPTIONS = ("degree", "share", "rewired", "sparsity", "seed")  # of topologies


def dpa_sgd(topology: Along = "ring", *, period: int = 5, weights: str | None = None, **options: Any) -> Method:
    """Every worker takes τ steps of SGD on its own data, then averages with its neighbours: X ← W·X.

    With the identity as W that is independent training; along the complete graph everybody has the central average.

    Arguments:
        topology: by name (see :func:`fedloom.mixing.topology`), a CSV file of pairs, a graph (also networkx's), a
            matrix W whose rows sum to one, or any mixer.
        period: τ, the steps between two exchanges; 1 is D-PSGD (Lian et al. 2017).
        weights: how neighbours are weighted: ``metropolis`` (the default), ``uniform`` or ``optimised``.
        options: the arguments of :func:`fedloom.local.sgd`: ``lr``, ``batch_size``, ``decay``, ``optimizer``; and those
            of the topology: ``degree``, ``share``, ``rewired``, ``sparsity``, ``seed``.

    >>> dpa_sgd("ring", period=3, lr=0.05).describe()["period"]
    3
    """
    mixer = mixed(topology, weights, options)
    work = given(None, {"period": period, **options}, "topology", "weights", *OPTIONS)
    return Method(work, OwnModels(mixer), fraction=1.0).checked()


def mixed(topology: Along, weights: str | None, options: dict[str, Any]) -> Mixer:
    """Return the mixer of a topology; the options of the topology are taken out of the others."""
    ours = {name: options.pop(name) for name in OPTIONS if name in options}
    if isinstance(topology, str):
        superfluous = weights not in (None, PUSH) and changes(topology)
        require(not superfluous, "weights", f"left alone with {topology}, which has its own", weights)
        return along(topology, weights or "metropolis", **ours)
    require(not ours, "topology", "a name, to have options", sorted(ours))
    if isinstance(topology, Graph) or is_networkx(topology):
        return pushed(topology) if weights == PUSH else gossip(topology, weights=weights or "metropolis")
    known = isinstance(topology, np.ndarray | Mixer)
    told = topology if known else type(topology).__name__
    require(known, "topology", "a name, a CSV file of pairs, a graph (also networkx's), a matrix or a mixer", told)
    own = f"left alone with a {'mixer' if isinstance(topology, Mixer) else 'matrix'}, which has its own"
    require(weights in (None, PUSH), "weights", own, weights)
    if isinstance(topology, Mixer):
        return topology
    require(weights != PUSH, "topology", "a name or a graph, of which push-sum makes its matrix", "a matrix")
    return from_matrix(topology)
