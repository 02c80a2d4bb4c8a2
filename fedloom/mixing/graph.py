"""Graph: who is whose neighbour, where there is no server."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.errors import ArgumentError, FedloomError, MissingExtra, choose, require, whole

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

TRIES = 100  # draws of a random graph until one is connected
ONE_PEER, RANDOM_PAIRS, MATCHA = CHANGING = ("one-peer-exponential", "random-pairs", "matcha")
"""Topologies that are no graphs: others are neighbours in every round."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Who is whose neighbour.

    Arguments:
        name: what it is called.
        heard: heard[i, j] says that worker i hears worker j; nobody hears itself.

    >>> ring(5).degrees.tolist(), ring(5).is_connected
    ([2, 2, 2, 2, 2], True)
    """

    name: str
    heard: Bool[np.ndarray, "K K"]

    def __post_init__(self) -> None:
        shape = self.heard.shape
        require(len(shape) == 2 and shape[0] == shape[1], "a graph", "a square matrix", shape)
        require(len(self) >= 2, "workers", "at least 2", len(self))
        require(not self.heard.diagonal().any(), "a graph", "one in which nobody is its own neighbour", self.name)

    def __len__(self) -> int:
        return len(self.heard)

    def __repr__(self) -> str:
        return f"Graph({self.name!r}: {len(self):,} workers, {int(self.heard.sum()):,} connections)"

    @cached_property
    def degrees(self) -> Int[np.ndarray, " K"]:
        """How many workers each hears."""
        return self.heard.sum(axis=1)

    @cached_property
    def is_mutual(self) -> bool:
        """Whether everybody is heard by whom it hears."""
        return bool((self.heard == self.heard.T).all())

    @cached_property
    def is_connected(self) -> bool:
        """Whether what one knows comes to everybody in time, along the directions in which workers hear."""
        return not self.apart

    @cached_property
    def apart(self) -> tuple[int, ...]:
        """The workers that what the first knows never comes to, or whose own never comes to the first."""
        there = reached(self.heard)
        return tuple(np.flatnonzero(~(there & (there if self.is_mutual else reached(self.heard.T)))).tolist())

    def connected(self) -> Graph:
        """The same, or an :class:`ArgumentError`."""
        many = " …" if len(self.apart) > 8 else ""
        told = f"{self.name}: worker 0 and {', '.join(map(str, self.apart[:8]))}{many} do not both hear of each other"
        require(self.is_connected, "a topology", "connected, for what one learns must come to everybody", told)
        return self


def reached(heard: Bool[np.ndarray, "K K"]) -> Bool[np.ndarray, " K"]:
    """Who hears of worker 0, from itself or from others."""
    found = np.zeros(len(heard), bool)
    found[0] = True
    while True:
        more = found | heard[:, found].any(axis=1)
        if (more == found).all():
            return found
        found = more


def mutual(name: str, workers: int, pairs: Iterable[tuple[int, int]]) -> Graph:
    """A graph of pairs that hear each other."""
    heard = np.zeros((workers, workers), bool)
    for i, j in pairs:
        heard[i, j] = heard[j, i] = True
    return Graph(name, heard)


def ring(workers: int) -> Graph:
    """Everybody hears the one before and the one after it."""
    require(workers >= 3, "workers", "at least 3 in a ring (2 are a line)", workers)
    return mutual("ring", workers, ((i, (i + 1) % workers) for i in range(workers)))


def line(workers: int) -> Graph:
    """A ring that is not closed."""
    return mutual("line", workers, ((i, i + 1) for i in range(workers - 1)))


def star(workers: int) -> Graph:
    """Everybody hears the first, and it hears everybody."""
    return mutual("star", workers, ((0, i) for i in range(1, workers)))


def complete(workers: int) -> Graph:
    """Everybody hears everybody."""
    return Graph("complete", ~np.eye(workers, dtype=bool))


def torus(workers: int) -> Graph:
    """A grid as square as can be, whose ends meet."""
    rows = max(d for d in range(1, int(workers**0.5) + 1) if workers % d == 0)
    require(rows >= 3, "workers", "a product of two numbers of at least 3 for a torus", workers)
    columns, name = workers // rows, f"torus {rows} × {workers // rows}"
    place = np.arange(workers).reshape(rows, columns)
    beside = [zip(place.ravel(), np.roll(place, -1, axis).ravel(), strict=True) for axis in (0, 1)]
    return mutual(name, workers, ((int(i), int(j)) for pairs in beside for i, j in pairs))


def hypercube(workers: int) -> Graph:
    """Workers whose numbers differ in one bit hear each other."""
    bits = workers.bit_length() - 1
    require(workers == 2**bits, "workers", "a power of two for a hypercube", workers)
    return mutual("hypercube", workers, ((i, i ^ (1 << b)) for i in range(workers) for b in range(bits)))


def exponential(workers: int) -> Graph:
    """Worker i hears i + 1, i + 2, i + 4, … (Ying et al. 2021); not mutual."""
    heard, steps = np.zeros((workers, workers), bool), 2 ** np.arange(max(1, (workers - 1).bit_length()))
    for step in steps[steps < workers]:
        heard[np.arange(workers), (np.arange(workers) + step) % workers] = True
    return Graph("exponential", heard)


def regular(workers: int, degree: int = 4, seed: int = 0) -> Graph:
    """A random graph in which everybody has so many neighbours."""
    good = 1 <= degree < workers and degree * workers % 2 == 0
    require(good, "degree", f"below {workers}, and even if workers are odd in number", degree)
    return _drawn(f"random {degree}-regular", lambda s: networkx().random_regular_graph(degree, workers, seed=s), seed)


def erdos_renyi(workers: int, share: float = 0.2, seed: int = 0) -> Graph:
    """Every pair is connected with the same probability."""
    require(0 < share <= 1, "share", "above 0 and at most 1", share)
    return _drawn(f"Erdős–Rényi {share:g}", lambda s: networkx().gnp_random_graph(workers, share, seed=s), seed)


def small_world(workers: int, degree: int = 4, rewired: float = 0.2, seed: int = 0) -> Graph:
    """A ring of neighbourhoods in which some connections lead far away (Watts and Strogatz 1998)."""
    require(2 <= degree < workers and degree % 2 == 0, "degree", f"even, between 2 and {workers - 1}", degree)
    make = lambda s: networkx().watts_strogatz_graph(workers, degree, rewired, seed=s)  # noqa: E731
    return _drawn(f"small world {degree}, {rewired:g}", make, seed)


def sparse(workers: int, sparsity: float = 0.8, seed: int = 0) -> Graph:
    """A ring, and random pairs until the given share of all possible pairs is not connected."""
    require(0 <= sparsity < 1, "sparsity", "at least 0 and below 1", sparsity)
    heard = ring(workers).heard.copy()
    first, second = np.nonzero(np.triu(~heard, 1))
    pairs = workers * (workers - 1) / 2
    wanted = round((1 - sparsity) * pairs) - workers
    need = f"at most {1 - workers / pairs:.3g}, which is the ring's, with {workers:,} workers"
    require(wanted >= 0, "sparsity", need, sparsity)
    chosen = np.random.default_rng(seed).permutation(len(first))[:wanted]
    heard[first[chosen], second[chosen]] = heard[second[chosen], first[chosen]] = True
    return Graph(f"sparsity {sparsity:g}", heard)


def edges(path: str | Path) -> Graph:
    """A graph from a file of pairs of worker numbers, from 0 on, a pair a line; both hear each other. Between the two
    is a comma, blanks or a tab; lines that begin with # and a first line of names are passed over.
    """
    file = Path(path)
    if not file.is_file():
        raise ArgumentError("the edge list", "a file that exists", str(file))
    written = [(n, text.strip()) for n, text in enumerate(file.read_text(encoding="utf-8-sig").splitlines(), 1)]
    rows = [(n, text, cells(text)) for n, text in written if text and not text.startswith("#")]
    if rows and not any(is_number(cell) for cell in rows[0][2]):
        rows = rows[1:]  # names of the columns
    pairs = [pair(f"line {n} of {file.name}", text, row) for n, text, row in rows]
    require(bool(pairs), "the edge list", "at least one pair", str(file))
    least = min(min(both) for both in pairs)
    require(least == 0, f"the least number in {file.name}", "0: worker numbers begin with 0", least)
    return mutual(file.stem, 1 + max(max(both) for both in pairs), pairs)


def cells(line: str) -> list[str]:
    """What stands in a line, between commas, blanks or tabs; the {} that networkx writes behind a pair is nothing.

    >>> cells("0, 1"), cells("0\\t1"), cells("0 1 {}"), cells("0,1,0.5")
    (['0', '1'], ['0', '1'], ['0', '1'], ['0', '1', '0.5'])
    """
    return re.split(r"\s*,\s*|\s+", re.sub(r"[\s,]*\{\}$", "", line.replace('"', "")).strip())


def is_number(text: str) -> bool:
    """Whether a text is a number of any kind."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def pair(where: str, line: str, row: list[str]) -> tuple[int, int]:
    """Two workers, from what stands in a line."""
    require(len(row) <= 2, where, "two worker numbers and no third column (connections have no weights here)", line)
    good = len(row) == 2 and all(cell.isdecimal() for cell in row)
    require(good, where, "two different worker numbers, whole and from 0 on", line)
    first, second = map(int, row)
    require(first != second, where, "two different worker numbers (nobody is its own neighbour)", line)
    return first, second


def from_networkx(given: Any) -> Graph:
    """A graph of networkx's. Nodes 0, 1, … are the workers of these numbers; others are numbered as they stand. Where
    it is directed, u → v says that v hears u. What weights its edges have counts for nothing: a matrix has weights.
    """
    nodes, workers = list(given), len(given)
    place = {node: i for i, node in enumerate(range(workers) if set(nodes) == set(range(workers)) else nodes)}
    heard = np.zeros((workers, workers), bool)
    for u, v in given.edges():
        heard[place[v], place[u]] = True
        heard[place[u], place[v]] |= not given.is_directed()
    return Graph(f"networkx {given.name or 'graph'}", heard)


def is_networkx(given: object) -> bool:
    """Whether something is a graph of networkx's, which need not be installed."""
    library = sys.modules.get("networkx")
    return library is not None and isinstance(given, library.Graph)


def _drawn(name: str, make: Callable[[int], Any], seed: int) -> Graph:
    """The first connected graph of a random kind."""
    for attempt in range(TRIES):
        made = make(seed * TRIES + attempt)
        graph = mutual(name, made.number_of_nodes(), made.edges)
        if graph.is_connected:
            return graph
    raise FedloomError(f"none of {TRIES} graphs of the kind {name} was connected: give it more connections")


def networkx() -> Any:
    """Import the library that draws random topologies, or raise :class:`MissingExtra`."""
    try:
        import networkx as library
    except ModuleNotFoundError as error:
        raise MissingExtra("networkx", "topology") from error
    return library


GRAPHS: dict[str, Callable[..., Graph]] = {
    "ring": ring, "line": line, "star": star, "complete": complete, "torus": torus, "hypercube": hypercube,
    "exponential": exponential, "regular": regular, "erdos-renyi": erdos_renyi, "small-world": small_world,
    "sparse": sparse,
}  # fmt: skip
"""Topology → what makes it, for so many workers."""


NUMBER: dict[str, tuple[str, type]] = {
    "regular": ("degree", int), "erdos-renyi": ("share", float), "small-world": ("degree", int),
    "sparse": ("sparsity", float),
}  # fmt: skip
"""Topology → what the number after its name is: ``regular:4``, ``sparse:0.8``."""


RANDOM = tuple(name for name, make in GRAPHS.items() if "seed" in inspect.signature(make).parameters)
"""Topologies that are drawn from a seed."""


def parsed(text: str) -> tuple[str, dict[str, Any]]:
    """A topology's name and its option, from a text.

    >>> parsed("regular:4"), parsed("ring")
    (('regular', {'degree': 4}), ('ring', {}))
    """
    name, colon, number = text.partition(":")
    choose("topology", name, GRAPHS)
    if not colon:
        return name, {}
    require(name in NUMBER, "topology", f"without a number, unless it is one of {', '.join(NUMBER)}", text)
    option, kind = NUMBER[name]
    try:
        return name, {option: kind(number)}
    except ValueError as error:
        raise ArgumentError(
            "topology", f"{name} and its {option}, such as {name}:{'4' if kind is int else '0.8'}", text
        ) from error


def graph(name: str, workers: int, **options: Any) -> Graph:
    """A connected topology by its name (and number: ``regular:4``), or from a CSV file of pairs.

    >>> graph("torus", 12)
    Graph('torus 3 × 4': 12 workers, 48 connections)
    """
    if name.endswith(".csv"):
        found = edges(name)
        require(len(found) == workers, "workers", f"{len(found)}, which {name} connects", workers)
        return found.connected()
    require(name.split(":")[0] not in CHANGING, "a graph", "one that stays (this changes from round to round)", name)
    require(workers >= 2, "workers", "at least 2", workers)
    name, given = parsed(name)
    for option in set(given) & set(options):
        raise ArgumentError(option, f"given once, with {name}:{given[option]:g} or alone", options[option])
    whole("seed", options.get("seed", 0), 0)
    return GRAPHS[name](workers, **given, **options).connected()


def as_graph(given: Any, workers: int | None = None, **options: Any) -> Graph:
    """A connected graph: itself, the one of that name, or networkx's."""
    if isinstance(given, str):
        require(workers is not None, "workers", "given with a topology's name", workers)
        return graph(given, int(workers or 0), **options)
    require(not options, "topology", "a name, to have options", sorted(options))
    known = isinstance(given, Graph) or is_networkx(given)
    require(known, "topology", "a name, a CSV file of pairs, a graph or networkx's", given)
    return (given if isinstance(given, Graph) else from_networkx(given)).connected()
