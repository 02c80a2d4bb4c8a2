"""Matrix: how much of each neighbour's model is in one's next, X ← W·X, and how fast that spreads what one knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fedloom.errors import choose, require
from fedloom.mixing.graph import Graph

if TYPE_CHECKING:
    from jaxtyping import Float

    W = Float[np.ndarray, "K K"]

ROUNDING = 1e-9
STEPS, TINY = 200, 1e-12  # of the search for the best weights, and the least that it divides by


def metropolis(graph: Graph) -> W:
    """W[i, j] = 1 / (1 + max(dᵢ, dⱼ)) for neighbours, the rest is one's own (Metropolis and Hastings): doubly
    stochastic on any graph whose workers hear each other.

    >>> from fedloom.mixing.graph import line
    >>> (6 * metropolis(line(3))).round(12).tolist()
    [[4.0, 2.0, 0.0], [2.0, 2.0, 2.0], [0.0, 2.0, 4.0]]
    """
    _mutual(graph, "metropolis")
    d = graph.degrees
    w = np.where(graph.heard, 1 / (1 + np.maximum(d[:, None], d)), 0.0)
    return w + np.diag(1 - w.sum(axis=1))


def uniform_neighbours(graph: Graph) -> W:
    """W[i, j] = 1 / (1 + dᵢ) for oneself and one's neighbours; doubly stochastic where all have as many."""
    return (graph.heard + np.eye(len(graph))) / (1 + graph.degrees[:, None])


def optimised(graph: Graph) -> W:
    """The symmetric weights with the smallest ζ that a search finds: it begins with the best constant weight,
    W = I - 2/(λ_max + λ_2)·L, and follows the subgradient of ζ (Xiao and Boyd 2004, whose problem is convex).
    """
    _mutual(graph, "optimised")
    first, second = np.nonzero(np.triu(graph.heard))
    laplacian = np.diag(graph.degrees) - graph.heard.astype(float)
    values = np.linalg.eigvalsh(laplacian)
    rates = np.full(len(first), 2 / (values[-1] + values[1]))

    def matrix(rates: np.ndarray) -> np.ndarray:
        w = np.zeros_like(laplacian)
        w[first, second] = w[second, first] = rates
        return w + np.diag(1 - w.sum(axis=1))

    best, least = matrix(rates), zeta(matrix(rates))
    for step in range(STEPS):
        found, vectors = np.linalg.eigh(matrix(rates) - 1 / len(graph))
        worst = int(np.argmax(np.abs(found)))
        v = vectors[:, worst]
        slope = -np.sign(found[worst]) * (v[first] - v[second]) ** 2  # of ζ along each weight
        rates = rates - abs(found[worst]) / (20 * (1 + step) ** 0.5) * slope / max(float(slope @ slope), TINY)
        if (now := zeta(matrix(rates))) < least:
            best, least = matrix(rates), now
    return best


def push(graph: Graph) -> W:
    """A[i, j] = 1 / (1 + how many hear j), for oneself and those who hear one: columns sum to one, so that nothing is
    lost, on any graph.

    >>> from fedloom.mixing.graph import exponential
    >>> push(exponential(5)).sum(axis=0).round(12).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    return (graph.heard + np.eye(len(graph))) / (1 + graph.heard.sum(axis=0))


WEIGHTS: dict[str, Callable[[Graph], W]] = {
    "metropolis": metropolis,
    "uniform": uniform_neighbours,
    "optimised": optimised,
}
"""How neighbours are weighted → the matrix of a graph."""


def weights(name: str, graph: Graph) -> W:
    """The matrix of a graph, by the name of its weights."""
    return checked(choose("weights", name, WEIGHTS)(graph))


def checked(w: W) -> W:
    """The same, if it is a square whose rows sum to one."""
    require(w.ndim == 2 and w.shape[0] == w.shape[1] > 0, "a mixing matrix", "a square", w.shape)
    sums = w.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1)))
    require(
        abs(sums[worst] - 1) < ROUNDING, "a mixing matrix", f"one whose rows sum to 1 (row {worst})", float(sums[worst])
    )
    return w


def keeps_mean(w: W) -> bool:
    """Whether columns sum to one too, so that the mean of all models is kept."""
    return bool(np.abs(w.sum(axis=0) - 1).max() < ROUNDING)


def zeta(w: W) -> float:
    """ζ, the second-largest modulus of an eigenvalue: how much of their disagreement is left after an exchange.

    >>> from fedloom.mixing.graph import complete
    >>> abs(zeta(uniform_neighbours(complete(4)))) < 1e-12
    True
    """
    symmetric = np.allclose(w, w.T, rtol=0, atol=ROUNDING)
    values = np.linalg.eigvalsh(w) if symmetric else np.linalg.eigvals(w)
    return float(np.sort(np.abs(values))[-2])


def _mutual(graph: Graph, name: str) -> None:
    need = 'uniform where not all who hear somebody are heard by it (--neighbours uniform, weights="uniform")'
    require(graph.is_mutual, f"the weights of {graph.name}", need, name)
