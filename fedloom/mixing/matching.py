"""Matching: workers meet in pairs, drawn anew every round: any pairs, or those that MATCHA takes of a topology."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize_scalar

from fedloom.combine.replies import Replies
from fedloom.errors import require
from fedloom.mixing.graph import Graph, as_graph, networkx
from fedloom.mixing.mixer import Few, as_many, checksum
from fedloom.shuffle import shuffle, words
from fedloom.tasks.task import Variables
from fedloom.trees import record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, Key

    from fedloom.mixing.mixer import Who

STEPS = 300  # of the search for the best probabilities


class Meeting(Few):
    """Everybody averages with whom it meets, each with the same share; who meets nobody meets itself."""

    share: Any  # how much each of those that one meets counts

    @property
    def seeks_consensus(self) -> bool:
        """True: models meet in turn."""
        return True

    def shares(self, replies: Replies, who: Int[Array, "K p"]) -> Float[Array, "K p"]:  # noqa: ARG002
        """The shares of oneself and of whom one meets."""
        others = jnp.full(who.shape, self.share, jnp.float32)
        return others.at[:, 0].set(1 - (who.shape[1] - 1) * self.share)


@record
class RandomPairs(Meeting):
    """In every round all workers meet in random pairs and take the mean; one is left over if they are odd in number."""

    @property
    def share(self) -> float:
        """A half."""
        return 0.5

    def pick(self, key: Key[Array, ""], replies: Replies, m: int, models: Variables) -> Who:  # noqa: ARG002
        """Oneself, and whom one meets."""
        k = len(replies.present)
        everybody = jnp.arange(k, dtype=jnp.int32)
        order = shuffle(everybody, jnp.int32(k), words(key))
        place = jnp.zeros(k, jnp.int32).at[order].set(everybody)
        other = place ^ 1
        partner = jnp.where(other < k, order[jnp.minimum(other, k - 1)], everybody)
        return jnp.stack([everybody, partner], axis=1)

    def moved(self, users: int) -> int:
        """A model each."""
        return users - users % 2

    def describe(self) -> dict[str, Any]:
        """Its name."""
        return {"mixing": "random pairs"}


@record
class Matcha(Meeting):
    """MATCHA (Wang et al. 2019): a topology is taken apart into matchings, and in every round each is used with a
    probability of its own, W = I - α Σ_j B_j·L_j; the more a matching helps to connect, the larger its probability.

    Arguments:
        partner: of each worker in each matching; itself where it has none.
        probability: of each matching.
        share: α.
        name: what it is called.

    Build it with :func:`matcha`.
    """

    partner: Int[Array | np.ndarray, "M K"]
    probability: Float[Array | np.ndarray, " M"]
    share: Float[Array, ""] | float
    name: str = static()

    def sized(self, clients: int) -> Matcha:
        """The same, if it is for so many workers."""
        as_many(clients, self.partner.shape[-1], "MATCHA's topology")
        return self

    def pick(self, key: Key[Array, ""], replies: Replies, m: int, models: Variables) -> Who:  # noqa: ARG002
        """Oneself, and whom one meets in each matching that is used."""
        everybody = jnp.arange(len(replies.present), dtype=jnp.int32)
        met = jnp.where(self.used(key)[:, None], jnp.asarray(self.partner), everybody)
        return jnp.concatenate([everybody[None], met]).T

    def used(self, key: Key[Array, ""]) -> Bool[Array, " M"]:
        """Which matchings are used in a round."""
        return jax.random.bernoulli(key, jnp.asarray(self.probability))

    def sent(self, users: int, round: int, key: Callable[[], Key[Array, ""]]) -> int:  # noqa: ARG002
        """A model each way along the connections of the matchings that are used."""
        pairs = (np.asarray(self.partner) != np.arange(users)).sum(axis=1)
        return int(pairs[np.asarray(self.used(key()))].sum())

    def moved(self, users: int) -> int:  # noqa: ARG002
        """The models that are sent in a round, on average."""
        partner, p = np.asarray(self.partner), np.asarray(self.probability)
        pairs = (partner != np.arange(partner.shape[-1])).sum(axis=-1)
        return round(float((p * pairs).sum() / max(1, p.size // p.shape[-1])))

    def describe(self) -> dict[str, Any]:
        """Its name, and a sum of its numbers by which another of that name is known."""
        return {"mixing": self.name, "matrix": checksum(self.partner, self.probability, self.share)}


random_pairs = RandomPairs()


def matchings(found: Graph) -> np.ndarray:
    """A topology's connections as few matchings: of each, every worker's partner, or itself.

    >>> from fedloom.mixing.graph import ring
    >>> sorted(matchings(ring(4)).tolist())
    [[1, 0, 3, 2], [3, 2, 1, 0]]
    """
    require(found.is_mutual, "a topology", "one whose workers hear each other, for MATCHA", found.name)
    library = networkx()
    lines = library.line_graph(library.from_numpy_array(found.heard))
    colours = library.greedy_color(lines, strategy="DSATUR")
    partner = np.tile(np.arange(len(found), dtype=np.int32), (1 + max(colours.values()), 1))
    for (i, j), colour in colours.items():
        partner[colour, i], partner[colour, j] = j, i
    order = sorted(range(len(partner)), key=lambda c: -int((partner[c] != np.arange(len(found))).sum()))
    return partner[order]


def matcha(topology: str | Graph | Any, workers: int | None = None, budget: float = 0.5, **options: Any) -> Matcha:
    """MATCHA on a topology.

    Arguments:
        topology: a graph (also networkx's), its name, or a CSV file of pairs.
        workers: how many, where it is a name.
        budget: the share of matchings that are used in a round, on average.
        options: of the topology.
    """
    require(0 < budget <= 1, "budget", "above 0 and at most 1", budget)
    found = as_graph(topology, workers, **options)
    partner = matchings(found)
    eye = np.eye(len(found))
    laplacians = np.stack([eye - eye[p] for p in partner])
    p = probabilities(laplacians, budget)
    return Matcha(partner, p.astype(np.float32), best_share(laplacians, p), f"MATCHA {budget:g} on {found.name}")


def probabilities(laplacians: np.ndarray, budget: float) -> np.ndarray:
    """The probabilities with Σ p_j = budget · M that connect best on average: the largest λ₂ of Σ p_j·L_j, which is
    concave in p, found by its supergradient.
    """
    many = len(laplacians)
    p = best = np.full(many, budget)
    largest = -np.inf
    for step in range(STEPS):
        values, vectors = np.linalg.eigh(np.tensordot(p, laplacians, 1))
        if values[1] > largest:
            best, largest = p, values[1]
        v = vectors[:, 1]
        p = projected(p + 0.2 / (1 + step) ** 0.5 * np.array([v @ lj @ v for lj in laplacians]), budget * many)
    return best


def projected(p: np.ndarray, total: float) -> np.ndarray:
    """The nearest probabilities with that sum.

    >>> projected(np.array([1.5, 0.5]), 1.0).tolist()
    [1.0, 0.0]
    """
    low, high = p.min() - 1, p.max()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(p - middle, 0, 1).sum() > total else (low, middle)
    return np.clip(p - high, 0, 1).round(12)


def left(laplacians: np.ndarray, p: np.ndarray, share: float) -> float:
    """The share of (squared) disagreement that a round leaves on average: ‖E[WᵀW] - J‖, with L̄ = Σ p_j·L_j

    E[WᵀW] = I - 2α·L̄ + α²·(L̄² + 2 Σ p_j (1 - p_j)·L_j)
    """
    k = laplacians.shape[1]
    mean, spread = (np.tensordot(weights, laplacians, 1) for weights in (p, p * (1 - p)))
    expected = np.eye(k) - 2 * share * mean + share**2 * (mean @ mean + 2 * spread) - 1 / k
    return float(np.abs(np.linalg.eigvalsh(expected)).max())


def best_share(laplacians: np.ndarray, p: np.ndarray) -> float:
    """The α that leaves the least."""
    return float(minimize_scalar(lambda a: left(laplacians, p, a), bounds=(1e-3, 1.0), method="bounded").x)
