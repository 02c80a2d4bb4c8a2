"""World: the ranks of a run over MPI, each with its own workers and its share of the machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedloom.errors import FedloomError, require

NEEDED = "ranks need MPI, which is missing here ({}): pip install 'fedloom[mpi]', and start with mpirun -n 4 fedloom …"


@dataclass(frozen=True)
class World:
    """All ranks, as one of them sees them.

    Arguments:
        rank, size: this one's number, and how many there are.
        letters: the communicator of models.
        notes: the communicator of everything else.
    """

    rank: int
    size: int
    letters: Any
    notes: Any

    @property
    def others(self) -> list[int]:
        """All ranks but this one."""
        return [rank for rank in range(self.size) if rank != self.rank]


def world() -> World:
    """The ranks that were started together; this one alone without ``mpirun``. Call it before JAX computes anything:
    ranks of one machine divide its cores among them.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise FedloomError(NEEDED.format(error)) from error
    if hasattr(signal, "SIGUSR1"):  # MPICH's way to tell that a rank has died, which would end this one
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    together = MPI.COMM_WORLD
    _settle(together.Split_type(MPI.COMM_TYPE_SHARED))
    return World(together.rank, together.size, together.Dup(), together.Dup())


def _settle(near: Any) -> None:
    """Keep to this rank's share of the cores, unless whoever started the ranks has seen to that; and do not fill an
    accelerator that others use too.
    """
    if near.size == 1:
        return
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        if all(theirs == cores for theirs in near.allgather(cores)):
            os.sched_setaffinity(0, portion(cores, near.rank, near.size))


def portion(cores: Sequence[int], rank: int, ranks: int) -> list[int]:
    """The cores of one of several ranks; ranks share cores where there are fewer cores than ranks.

    >>> [portion([0, 1, 2, 3], rank, 2) for rank in range(2)], [portion([4, 5], rank, 3) for rank in range(3)]
    ([[0, 1], [2, 3]], [[4], [5], [4]])
    """
    if len(cores) < ranks:
        return [cores[rank % len(cores)]]
    return list(cores[rank * len(cores) // ranks : (rank + 1) * len(cores) // ranks])


def owners(workers: int, ranks: int) -> np.ndarray:
    """The rank of each worker: contiguous blocks, as even as can be.

    >>> owners(5, 2).tolist()
    [0, 0, 0, 1, 1]
    """
    require(ranks <= workers, "ranks", f"at most as many as there are workers, {workers:,}", ranks)
    return np.repeat(np.arange(ranks), [len(part) for part in np.array_split(np.arange(workers), ranks)])
