"""Spread: how well a topology spreads what workers know, and which is the sparsest that is good enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fedloom.errors import FedloomError, MissingExtra, require
from fedloom.mixing.graph import Graph, graph
from fedloom.mixing.matrix import keeps_mean, zeta
from fedloom.mixing.matrix import weights as matrix_of

DEGREES = (3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # of the random graphs that are tried


@dataclass(frozen=True)
class Spread:
    """What is known of a topology and its weights.

    Arguments:
        graph: who is whose neighbour.
        weights: how neighbours are weighted.
        zeta: ζ, the second-largest modulus of an eigenvalue of W.
        keeps_mean: whether W's columns sum to one too, so that the mean of all models is kept.
    """

    graph: Graph
    weights: str
    zeta: float
    keeps_mean: bool

    @property
    def gap(self) -> float:
        """The spectral gap, 1 - ζ: 1 is the exact average at once, 0 is nothing ever."""
        return 1 - self.zeta

    @property
    def links(self) -> int:
        """How many models are sent in a round, all workers together."""
        return int(self.graph.heard.sum())

    def steps(self, period: int) -> float:
        """T ≥ K³ ((1 + ζ²)/(1 - ζ²)·τ - 1)²: the steps after which DPA-SGD's bound holds (He et al. 2019, appendix I).

        >>> spread(graph("complete", 10)).steps(period=3)
        4000.0
        """
        require(period >= 1, "period", "at least 1 step", period)
        squared = min(self.zeta**2, 1 - 1e-15)
        return round(len(self.graph) ** 3 * ((1 + squared) / (1 - squared) * period - 1) ** 2, 6)

    def advice(self, period: int) -> str:
        """What the bound says of the period and the sparseness."""
        now = self.steps(period)
        if period > 1 and self.steps(1) < 0.2 * now:
            return (
                f"with a period of 1 the bound holds after {self.steps(1):.2g} steps instead of {now:.2g}; many or "
                "sparsely connected workers should exchange more often, few and well connected ones less"
            )
        return f"the period of {period} costs little here: for few, well connected workers a larger one saves exchanges"


def spread(found: Graph, weights: str = "metropolis") -> Spread:
    """What is known of a topology; where workers do not all hear each other, with uniform weights."""
    w = matrix_of(weights, found)
    return Spread(found, weights, zeta(w), keeps_mean(w))


def candidates(workers: int, seed: int = 0) -> Iterator[Graph]:
    """Topologies for so many workers, from the sparsest on."""
    names = [
        "line",
        "ring",
        "torus",
        "hypercube",
        *(f"regular:{d}" for d in DEGREES),
        "complete",
    ]
    found = []
    for name in names:
        options = {"seed": seed} if name.startswith("regular") else {}
        try:
            found.append(graph(name, workers, **options))
        except MissingExtra:
            raise  # without random topologies, the answer would be another one
        except FedloomError:
            continue  # not for so many workers
    yield from sorted(found, key=lambda g: int(g.heard.sum()))


def sparsest(workers: int, gap: float, weights: str = "metropolis", seed: int = 0) -> Spread:
    """The topology with the fewest connections whose spectral gap is large enough."""
    require(0 < gap <= 1, "the gap", "above 0 and at most 1", gap)
    return next(s for s in (spread(g, weights) for g in candidates(workers, seed)) if s.gap >= gap - 1e-9)
