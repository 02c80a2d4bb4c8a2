"""Multi-task learning: every client has an output layer of its own, and learns whose are like it (He et al. 2019)."""

from __future__ import annotations

from typing import Any

from fedloom.algorithms.dpa_sgd import OPTIONS, Along, mixed
from fedloom.algorithms.method import Method
from fedloom.local import given
from fedloom.local.related import Related
from fedloom.mixing import personal
from fedloom.routing.related_outputs import RelatedOutputs


def dpa_sgd_mtl(
    topology: Along = "ring",
    *,
    period: int = 5,
    weights: str | None = None,
    lambdas: tuple[float, float, float, float] = (1e-4, 1e-4, 0.0, 0.0),
    eta: float = 0.5,
    output: str = "output",
    upper: str = "",
    **options: Any,
) -> Method:
    """Return DPA-SGD with multi-task learning: neighbours average features, and related output layers pull each other.

    Args:
        topology: the connections, as for :func:`fedloom.dpa_sgd`.
        period: τ, the steps between two exchanges.
        weights: the weights of neighbours, as for :func:`fedloom.dpa_sgd`.
        lambdas: the strengths λ₁ (between output layers), λ₂ (of output layers), λ₃ (features), λ₄ (upper features).
        eta: η, the weight of the new Ω in an exchange.
        output: the names of the output layers w.
        upper: the names of the upper layers U.
        options: the arguments of :func:`fedloom.local.sgd`, and the options of the topology.

    >>> dpa_sgd_mtl(lambdas=(-1, 0, 0, 0))
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: lambda1 must be at least 0, but is -1
    """
    mixer = mixed(topology, weights, options)
    others = ("topology", "weights", "lambdas", "eta", "output", "upper", *OPTIONS)
    local = Related(given(None, {"period": period, **options}, *others))
    routing = RelatedOutputs(mixer, lambdas, eta, output, upper, has_one_omega=False)
    return Method(local, routing, fraction=1.0).checked()


def fedavg_mtl(
    *,
    lambdas: tuple[float, float, float, float] = (1e-4, 1e-4, 0.0, 0.0),
    eta: float = 0.5,
    output: str = "output",
    upper: str = "",
    **options: Any,
) -> Method:
    """Return federated averaging with multi-task learning.

    A server averages all clients' features, weighted by their examples, and keeps one Ω of all output layers. The
    arguments are those of :func:`dpa_sgd_mtl` and :func:`fedloom.local.sgd`.
    """
    routing = RelatedOutputs(personal(), lambdas, eta, output, upper, has_one_omega=True)
    return Method(Related(given(None, options)), routing, fraction=1.0).checked()
