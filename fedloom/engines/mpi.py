"""MPI: every method on the ranks of an MPI program, from Python: ``mpirun -n 4 python mine.py``.

All ranks run the same script with the same arguments. Rank 0 drives the run: it sends the others pieces of each round's
work and ends the round. The other ranks work until the run is over, and then have the same result. A piece's replies
are added up where they are made, and the pieces in order, so results do not depend on the number of ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fedloom.algorithms.method import Method
from fedloom.data.federated import FederatedData
from fedloom.engines.crew import Crew, Make
from fedloom.engines.packing import pack, unpack
from fedloom.engines.spreading import Spreading, station
from fedloom.engines.world import World, world
from fedloom.errors import FedloomError, require
from fedloom.tasks.task import Task

CHUNK = 2**30  # bytes of a message of MPI
WORK, OVER = "work", "over"


class Ranks(Crew):
    """The ranks of an MPI program, of which rank 0 does its share of the work itself."""

    def __init__(self, here: World, make: Make) -> None:
        self.here, self.make, self.thing = here, make, None

    def do(self, method: str, shared: Mapping[str, np.ndarray], pieces: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the results of a method for each piece of work, in the order of the pieces."""
        ranks = self.here.size
        for rank in self.here.others:
            send(self.here, rank, (WORK, method, dict(shared), list(pieces[rank::ranks])))
        self.thing = self.thing or self.make()
        found = {0: [getattr(self.thing, method)(shared, *piece) for piece in pieces[::ranks]]}
        for rank in self.here.others:
            found[rank] = result(rank, receive(self.here, rank))
        return [found[i % ranks][i // ranks] for i in range(len(pieces))]


@dataclass(frozen=True)
class MpiEngine(Spreading):
    """The engine whose workers are the ranks of an MPI program; build it with :func:`mpi`."""

    def crew(self, make: Make) -> Crew:
        """Return the ranks."""
        return Ranks(_world(), make)

    def follow(
        self, data: FederatedData, task: Task, methods: Sequence[Method], seeds: Sequence[int], observed: bool
    ) -> Any:
        """Work for rank 0 until a run is over, and return what it sends then; ``None`` on rank 0, which drives."""
        here = _world()
        if here.rank == 0:
            return None
        sized = [method.for_clients(len(data), data.client_names) for method in methods]
        thing = station(data, task, sized, list(seeds), observed)
        while True:
            kind, *rest = receive(here, 0)
            if kind == OVER:
                return rest[0]
            method, shared, pieces = rest
            try:
                found: Any = [getattr(thing, method)(shared, *piece) for piece in pieces]
            except Exception as error:
                found = f"{type(error).__name__}: {error}"
            send(here, 0, found)

    def lead(self, found: Any) -> None:
        """Tell the other ranks that a run is over, and what came of it."""
        here = _world()
        for rank in here.others:
            send(here, rank, (OVER, found))


def mpi(*, pieces: int = 16) -> MpiEngine:
    """Return the engine that spreads clients' work over the ranks of an MPI program.

    Start the script with ``mpirun -n 4 python mine.py``. Every rank runs it and has the result in the end; print and
    save on rank 0 alone, where ``fl.engines.mpi_rank() == 0``. A folder is written by rank 0.

    Args:
        pieces: the largest number of parts into which a round's clients are cut; results depend on it in rounding.
    """
    require(pieces >= 1, "pieces", "at least 1", pieces)
    return MpiEngine(_world().size, pieces)


def mpi_rank() -> int:
    """Return the number of this process among those that ``mpirun`` has started."""
    return _world().rank


@cache
def _world() -> World:
    return world()


def send(here: World, rank: int, tree: Any) -> None:
    """Send a tree of arrays to a rank."""
    content = np.frombuffer(pack(tree), np.uint8)
    here.letters.Send(np.array([len(content)], np.int64), rank)
    for start in range(0, len(content), CHUNK):
        here.letters.Send(content[start : start + CHUNK], rank)


def receive(here: World, rank: int) -> Any:
    """Return the tree of arrays that a rank sends."""
    size = np.empty(1, np.int64)
    here.letters.Recv(size, rank)
    content = np.empty(int(size[0]), np.uint8)
    for start in range(0, len(content), CHUNK):
        here.letters.Recv(content[start : start + CHUNK], rank)
    return unpack(content.tobytes())


def result(rank: int, found: Any) -> list[Any]:
    """Return the results of a rank, or raise the error that it had."""
    if isinstance(found, str):
        raise FedloomError(f"rank {rank} could not work: {found}")
    results: list[Any] = found
    return results
