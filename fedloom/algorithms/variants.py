"""Variants of federated averaging: other work at the clients, or other weights; each is one argument."""

from __future__ import annotations

from typing import Any

import fedloom.local as work
from fedloom.algorithms.fedavg import fedavg
from fedloom.algorithms.method import Method
from fedloom.combine import fair
from fedloom.errors import require
from fedloom.local import Local, given

TOGETHER = (
    "fraction",
    "selection",
    "server",
    "weighting",
    "combiner",
    "routing",
)  # what is federated averaging's; the rest is local work's


def _around(make: Any, local: Local | None, options: dict[str, Any]) -> Method:
    """Federated averaging whose local work is made by a function of plain local work."""
    shared = {name: options.pop(name) for name in TOGETHER if name in options}
    return fedavg(local=make(given(local, options, *TOGETHER, "local")), **shared)


def fedprox(mu: float = 0.01, *, local: Local | None = None, **options: Any) -> Method:
    """FedProx (Li et al. 2020): local work is pulled back to the model it began with, μ/2 · ‖w - w_t‖².

    Arguments:
        mu: how strongly.

    The other arguments are those of :func:`fedavg`, here and below.

    >>> fedprox(0.1, fraction=0.2, lr=0.05).describe()["work"]
    'proximal(0.1) of sgd'
    """
    return _around(lambda inner: work.proximal(mu, inner), local, options)


def scaffold(*, local: Local | None = None, **options: Any) -> Method:
    """SCAFFOLD (Karimireddy et al. 2020): every client keeps an estimate of its own gradient and corrects its steps by
    how that differs from everybody's. (In the paper all count the same: ``weighting=uniform``.)
    """
    return _around(work.scaffold, local, options)


def ditto(mu: float = 0.01, *, local: Local | None = None, **options: Any) -> Method:
    """Ditto (Li et al. 2021): beside the shared model, every client trains one of its own, pulled towards the shared.

    Arguments:
        mu: how strongly; 0 is local training alone.
    """
    return _around(lambda inner: work.ditto(mu, inner), local, options)


def fedper(layers: str = "output", *, local: Local | None = None, **options: Any) -> Method:
    """FedPer (Arivazhagan et al. 2019): some layers are every client's own.

    Arguments:
        layers: which, comma-separated.
    """
    return _around(lambda inner: work.private(layers, inner), local, options)


def fedrep(layers: str = "output", head_epochs: int = 1, *, local: Local | None = None, **options: Any) -> Method:
    """FedRep (Collins et al. 2021): the same, and a client first trains its own layers alone, then the shared alone.

    Arguments:
        layers: which are its own, comma-separated.
        head_epochs: how long it trains those.
    """
    return _around(lambda inner: work.private(layers, inner, head_epochs=head_epochs), local, options)


def fedbn(layers: str = "norm*", *, local: Local | None = None, **options: Any) -> Method:
    """FedBN (Li et al. 2021): the layers that normalise are every client's own, with their statistics.

    Arguments:
        layers: which those are, comma-separated.
    """
    return fedper(layers, local=local, **options)


def qfedavg(q: float = 1.0, *, local: Local | None = None, **options: Any) -> Method:
    """q-FedAvg (Li et al. 2020): the worse the model does for a client, the more that client counts.

    Arguments:
        q: how much more.
    """
    require("weighting" not in options, "weighting", "left alone with q-FedAvg, which is one", options.get("weighting"))
    return _around(lambda inner: inner, local, {"weighting": fair(q), **options})
