"""Gossip: everybody averages with its neighbours, by a matrix that is fixed or changes from round to round."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from fedloom.combine.replies import Replies
from fedloom.errors import ArgumentError, choose, require
from fedloom.mixing.graph import CHANGING, GRAPHS, MATCHA, ONE_PEER, RANDOM, RANDOM_PAIRS, Graph, as_graph, parsed
from fedloom.mixing.matching import matcha, random_pairs
from fedloom.mixing.matrix import WEIGHTS, checked, push
from fedloom.mixing.matrix import weights as matrix_of
from fedloom.mixing.mixer import Few, Mixer, as_many, checksum
from fedloom.tasks.task import Variables
from fedloom.trees import record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, Key

    from fedloom.mixing.mixer import Who

PUSH = "push"


@record
class Gossip(Few):
    """X ← W·X, W[i, j] above zero only for oneself and one's neighbours; of several matrices, one a round in turn.

    Arguments:
        index: whom each worker averages, itself first, and padded with itself: (matrices, workers, a few).
        share: how much each counts; padding counts nothing.
        links: how many models are sent in a round, for each matrix.
        name: what it is called.

    Build it with :func:`gossip`, :func:`one_peer_exponential` or :func:`from_matrix`.
    """

    index: Int[Array | np.ndarray, "T K p"]
    share: Float[Array | np.ndarray, "T K p"]
    links: tuple[int, ...] = static()
    name: str = static()

    @property
    def seeks_consensus(self) -> bool:
        """True: models meet along the connections."""
        return True

    def pick(self, key: Key[Array, ""], replies: Replies, m: int, models: Variables) -> Who:  # noqa: ARG002
        """One's neighbours in this round."""
        assert replies.round is not None
        return jnp.asarray(self.index)[replies.round % len(self.index)]

    def shares(self, replies: Replies, who: Int[Array, "K p"]) -> Float[Array, "K p"]:  # noqa: ARG002
        """Their shares in this round."""
        assert replies.round is not None
        return jnp.asarray(self.share)[replies.round % len(self.share)]

    def sized(self, clients: int) -> Gossip:
        """The same, if it is for so many workers."""
        as_many(clients, self.index.shape[-2], "a mixing matrix")
        return self

    @property
    def graph(self) -> Graph:
        """Who hears whom in any round."""
        index, share = np.asarray(self.index), np.asarray(self.share)
        heard = np.zeros((index.shape[1],) * 2, bool)
        heard[np.broadcast_to(np.arange(index.shape[1])[:, None], index.shape)[share != 0], index[share != 0]] = True
        np.fill_diagonal(heard, False)
        return Graph(self.name.split(", ")[0], heard)

    def moved(self, users: int) -> int:  # noqa: ARG002
        """A model along each connection, on average over the matrices."""
        return round(sum(self.links) / len(self.links))

    def sent(self, users: int, round: int, key: Callable[[], Key[Array, ""]]) -> int:  # noqa: ARG002
        """A model along each connection of the round's matrix."""
        return self.links[round % len(self.links)]

    def describe(self) -> dict[str, Any]:
        """Its name, and a sum of its numbers by which another of that name is known."""
        return {"mixing": self.name, "matrix": checksum(self.index, self.share)}


@record
class Push(Gossip):
    """X ← A·X, whose columns sum to one: everybody splits what it has among itself and those who hear it, and keeps the
    part of those who are not there.
    """

    @property
    def pushes(self) -> bool:
        """True: everybody splits what it has."""
        return True

    def taken(self, replies: Replies, who: Int[Array, "K p"]) -> Float[Array, "K p"]:
        """What each takes of everybody's; of its own, what it has not given away."""
        both = replies.present[who] & replies.present[:, None]
        shares = jnp.where(both, self.shares(replies, who), 0).at[:, 0].set(0)
        given = jnp.zeros(len(who)).at[who].add(shares)
        return shares.at[:, 0].set(1 - given)


@record
class Topology(Mixer):
    """A topology for as many workers as there are. Build it with :func:`topology`."""

    name: str = static()
    weights: str = static()
    options: tuple[tuple[str, float], ...] = static()

    @property
    def pushes(self) -> bool:
        """True for push-sum."""
        return self.weights == PUSH

    @property
    def changes(self) -> bool:
        """Whether neighbours differ from round to round."""
        return changes(self.name)

    def sized(self, clients: int) -> Mixer:
        """The same for so many workers."""
        return _sized(self, clients, stamp(self.name))

    def moved(self, users: int) -> int:
        """As many as its matrices say."""
        return self.sized(users).moved(users)

    def describe(self) -> dict[str, Any]:
        """Its name."""
        return {"mixing": self.name, "weights": self.weights, **dict(self.options)}


def stamp(name: str) -> tuple[int, int] | None:
    """When a file was written, and its size, by which another of that name is known; ``None`` if it is none."""
    if not name.endswith(".csv") or not Path(name).is_file():
        return None
    about = Path(name).stat()
    return about.st_mtime_ns, about.st_size


@cache
def _sized(topology: Topology, clients: int, file: tuple[int, int] | None) -> Mixer:  # noqa: ARG001
    """A topology for so many workers, which takes time to make and is asked for more than once; of a file, as it is."""
    name, options = topology.name, dict(topology.options)
    if name == RANDOM_PAIRS:
        return random_pairs
    if name.startswith(f"{MATCHA}:"):
        along, budget = budgeted(name)
        return matcha(along, clients, budget, **options)
    if name == ONE_PEER:
        found = one_peer_exponential(clients)  # whose columns sum to one, too
        return Push(found.index, found.share, found.links, f"{found.name}, push") if topology.pushes else found
    return pushed(name, clients, **options) if topology.pushes else gossip(name, clients, topology.weights, **options)


def topology(name: str = "ring", weights: str = "metropolis", **options: float) -> Topology:
    """Neighbours along a topology, for as many workers as there are.

    Arguments:
        name: ``ring``, ``line``, ``star``, ``complete``, ``torus``, ``hypercube``, ``exponential``, ``regular``,
            ``erdos-renyi``, ``small-world``, ``sparse`` (with their number, if not the usual one: ``regular:6``), or a
            CSV file of pairs; others in every round: ``one-peer-exponential``, ``random-pairs``, ``matcha:ring:0.5``
            (MATCHA on a topology, with a budget).
        weights: how neighbours are weighted: ``metropolis``, ``uniform`` or ``optimised``; ``push`` for push-sum.
        options: of the topology: ``degree``, ``share``, ``rewired``, ``sparsity``, ``seed``.

    >>> topology("ring").sized(4).moved(4)
    8
    """
    kind = kind_of(name)
    known = inspect.signature(GRAPHS[kind]).parameters if kind in GRAPHS else {}
    if options and not known:
        raise ArgumentError("the topology", "one that has options", f"{name} with {', '.join(options)}")
    for option in options:
        choose(f"an option of {name}", option, dict.fromkeys(o for o in known if o != "workers"))
    if weights == PUSH:
        stays = f"one that stays, or {ONE_PEER}, with push-sum"
        require(name == ONE_PEER or not changes(name), "topology", stays, name)
    else:
        choose("weights", weights, WEIGHTS)
        own = f"left alone with {name}, which has its own"
        require(weights == "metropolis" or not changes(name), "weights", own, weights)
    return Topology(name, weights, tuple(sorted(options.items())))


def kind_of(name: str) -> str:
    """What a topology is, or what MATCHA is on, without its number; a file is itself.

    >>> kind_of("regular:4"), kind_of("matcha:sparse:0.8:0.5"), kind_of("pairs.csv")
    ('regular', 'sparse', 'pairs.csv')
    """
    if name.endswith(".csv") or name in (ONE_PEER, RANDOM_PAIRS):
        return name
    kind = name.split(":")[0]
    choose("topology", kind, dict.fromkeys([*GRAPHS, *CHANGING]))
    if kind in (ONE_PEER, RANDOM_PAIRS):
        raise ArgumentError("topology", f"{kind}, without a number", name)
    return parsed(budgeted(name)[0] if kind == MATCHA else name)[0]


def budgeted(name: str) -> tuple[str, float]:
    """MATCHA's topology and its budget.

    >>> budgeted("matcha:regular:4:0.5")
    ('regular:4', 0.5)
    """
    along, _, budget = name.removeprefix(f"{MATCHA}:").rpartition(":")
    try:
        found = float(budget)
    except ValueError:
        found = 0.0
    need = f"{MATCHA}, a topology, and a budget above 0 and at most 1, such as {MATCHA}:ring:0.5"
    require(along.split(":")[0] in GRAPHS and 0 < found <= 1, "topology", need, name)
    return along, found


def changes(name: str) -> bool:
    """Whether a topology's neighbours differ from round to round."""
    return name.split(":")[0] in CHANGING


def is_random(name: str) -> bool:
    """Whether a topology is drawn from a seed, once for all rounds.

    >>> is_random("sparse:0.8"), is_random("ring"), is_random("matcha:regular:4:0.5"), is_random("random-pairs")
    (True, False, True, False)
    """
    return kind_of(name) in RANDOM


def from_matrix(*matrices: np.ndarray, name: str = "matrix") -> Gossip:
    """Gossip by matrices whose rows sum to one: one a round, in turn; several may be stacked. Nothing else is asked of
    them: if columns do not sum to one the mean of all models drifts, and who is cut off stays apart.

    >>> from_matrix(np.array([[0.5, 0.5], [0.5, 0.5]])).index.tolist()
    [[[0, 1], [1, 0]]]
    """
    given = [np.asarray(w, float) for w in matrices]
    for w in given:
        require(w.ndim in (2, 3), "a mixing matrix", "K × K, or several stacked", w.shape)
    every = [one for w in given for one in (w if w.ndim == 3 else [w])]
    require(len(every) > 0, "matrices", "at least one", len(every))
    return Gossip(*_few([checked(w) for w in every]), name=name)


def _few(matrices: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Whom each worker averages by each matrix, their shares, and how many models are sent."""
    workers = len(matrices[0])
    for w in matrices:
        require(w.shape == (workers, workers), "a mixing matrix", f"one of {workers} × {workers}", w.shape)
    away = [(w != 0) & ~np.eye(workers, dtype=bool) for w in matrices]
    few = 1 + max(int(a.sum(axis=1).max()) for a in away)
    index = np.tile(np.arange(workers, dtype=np.int32)[:, None], (len(matrices), 1, few))
    share = np.zeros((len(matrices), workers, few), np.float32)
    for t, (w, others) in enumerate(zip(matrices, away, strict=True)):
        share[t, :, 0] = w.diagonal()
        for i in range(workers):
            found = np.flatnonzero(others[i])
            index[t, i, 1 : 1 + len(found)] = found
            share[t, i, 1 : 1 + len(found)] = w[i, found]
    return index, share, tuple(int(a.sum()) for a in away)


def gossip(
    topology: str | Graph | Any, workers: int | None = None, weights: str = "metropolis", **options: Any
) -> Gossip:
    """Gossip along a topology.

    Arguments:
        topology: a graph (also networkx's), its name (``ring``, ``torus``, …), or a CSV file of pairs.
        workers: how many, where it is a name.
        weights: how neighbours are weighted: ``metropolis``, ``uniform`` or ``optimised``.
        options: of the topology: ``degree``, ``share``, ``sparsity``, ``seed``.

    >>> [f"{share:.4f}" for share in gossip("ring", 5).share[0, 0]]
    ['0.3333', '0.3333', '0.3333']
    """
    found = as_graph(topology, workers, **options)
    return from_matrix(matrix_of(weights, found), name=f"{found.name}, {weights}")


def pushed(topology: str | Graph | Any, workers: int | None = None, **options: Any) -> Push:
    """Push-sum's matrix of a topology, directed or not. The arguments are those of :func:`gossip`."""
    found = as_graph(topology, workers, **options)
    return Push(*_few([push(found)]), name=f"{found.name}, push")


def one_peer_exponential(workers: int) -> Gossip:
    """In round t everybody averages with the one 2^(t mod log₂ K) places on (Ying et al. 2021): one model a round each,
    and with a power of two of workers the exact average after log₂ K rounds.
    """
    require(workers >= 2, "workers", "at least 2", workers)
    steps = [2**t for t in range(max(1, (workers - 1).bit_length()))]
    eye = np.eye(workers)
    return from_matrix(*(0.5 * (eye + np.roll(eye, step, axis=1)) for step in steps), name="one-peer exponential")
