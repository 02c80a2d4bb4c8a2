"""Decentralised periodic averaging SGD: no server; neighbours average now and then (He et al. 2019)."""

from __future__ import annotations

from typing import Any

from fedloom.algorithms.personalised import Personalised
from fedloom.errors import require
from fedloom.local import given
from fedloom.mixing import Mixer
from fedloom.mixing import topology as along
from fedloom.mixing.gossip import PUSH

OPTIONS = ("degree", "share", "rewired", "sparsity", "seed")  # of topologies


def dpa_sgd(
    topology: str | Mixer = "ring", *, period: int = 5, weights: str = "metropolis", **options: Any
) -> Personalised:
    """Every worker takes τ steps of SGD on its own data, then averages with its neighbours: X ← W·X.

    With the identity as W that is independent training; along the complete graph everybody has the central average.

    Arguments:
        topology: by name (see :func:`fedloom.mixing.topology`), a CSV file of pairs, or any mixer.
        period: τ, the steps between two exchanges; 1 is D-PSGD (Lian et al. 2017).
        weights: how neighbours are weighted: ``metropolis``, ``uniform`` or ``optimised``.
        options: the arguments of :func:`fedloom.local.sgd`: ``lr``, ``batch_size``, ``decay``, ``optimizer``; and those
            of the topology: ``degree``, ``share``, ``rewired``, ``sparsity``, ``seed``.

    >>> dpa_sgd("ring", period=3, lr=0.05).describe()["period"]
    3
    """
    mixer = mixed(topology, weights, options)
    work = given(None, {"period": period, **options}, *OPTIONS)
    return Personalised(work, mixer, 1.0).checked()


def mixed(topology: str | Mixer, weights: str, options: dict[str, Any]) -> Mixer:
    """The mixer of a topology, whose options are taken out of the others."""
    ours = {name: options.pop(name) for name in OPTIONS if name in options}
    if isinstance(topology, str):
        return along(topology, weights, **ours)
    require(not ours, "topology", "a name, to have options", sorted(ours))
    require(weights in ("metropolis", PUSH), "weights", "left alone with a mixer, which has its own", weights)
    return topology
