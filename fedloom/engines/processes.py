"""Processes: a crew in processes of this machine, for clients that train by code of their own."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from safetensors.numpy import load_file, save_file

import fedloom.engines.devices as machine
from fedloom.engines.crew import Crew, Make, borne
from fedloom.engines.spreading import Spreading
from fedloom.errors import require

SCRIPT = "in a script, put what starts the run under if __name__ == '__main__': each process imports the script"


class Processes(Crew):
    """So many processes, begun when there is work."""

    def __init__(self, workers: int, make: Make) -> None:
        self.workers, self.folder, self.turn = workers, Path(tempfile.mkdtemp(prefix="fedloom-")), 0
        (self.folder / "make").write_bytes(cloudpickle.dumps(make))
        self.pool: ProcessPoolExecutor | None = None

    def do(self, method: str, shared: Mapping[str, np.ndarray], pieces: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What a method gives for each piece of work, in their order; arrays go through a file in memory or on disk."""
        self.turn += 1
        file = self.folder / f"{self.turn}.safetensors"
        save_file({name: np.ascontiguousarray(a) for name, a in shared.items()}, file)
        found: dict[int, Any] = {}
        deaths = 0
        try:
            while len(found) < len(pieces):
                self.pool = self.pool or ProcessPoolExecutor(self.workers, get_context("spawn"), _begin)
                left = [i for i in range(len(pieces)) if i not in found]
                futures: dict[int, Future[Any]] = {}
                try:
                    with _threads(max(1, machine.cores() // self.workers)):
                        for i in left:
                            futures[i] = self.pool.submit(_do, str(self.folder), method, file.name, pieces[i])
                    for i, future in futures.items():
                        found[i] = future.result()
                        deaths = 0
                except BrokenProcessPool as error:
                    found |= {i: f.result() for i, f in futures.items() if f.done() and not f.exception()}
                    self.pool, deaths = None, deaths + 1
                    borne(deaths, method, f"{error}; {SCRIPT}")
        finally:
            file.unlink()
        return [found[i] for i in range(len(pieces))]

    def close(self) -> None:
        """Let the processes end, and take away their folder."""
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
            self.pool = None
        shutil.rmtree(self.folder, ignore_errors=True)


class ProcessEngine(Spreading):
    """The engine of clients in processes; build it with :func:`processes`."""

    def crew(self, make: Make) -> Crew:
        """So many processes."""
        return Processes(self.workers, make)


def processes(workers: int | None = None, *, pieces: int = 16) -> ProcessEngine:
    """Return the engine that runs clients in processes of this machine: compiled, or by code of their own.

    A process that dies is replaced, and the clients it was running run again: results depend neither on the number of
    processes nor on failures.

    Args:
        workers: the number of processes; by default one for each core.
        pieces: the largest number of parts into which a round's clients are cut; results depend on it in rounding.
    """
    require(workers is None or workers >= 1, "workers", "at least 1", workers)
    require(pieces >= 1, "pieces", "at least 1", pieces)
    return ProcessEngine(workers or machine.cores(), pieces)


@contextmanager
def _threads(each: int) -> Iterator[None]:
    """Inside, processes that begin compute with so many threads, unless the user has said how many."""
    missing = "OMP_NUM_THREADS" not in os.environ
    if missing:
        os.environ["OMP_NUM_THREADS"] = str(each)
    try:
        yield
    finally:
        if missing:
            del os.environ["OMP_NUM_THREADS"]


MADE: dict[str, Any] = {}
"""In a worker: what does the work, and the arrays that it read last."""


def _begin() -> None:
    """In a worker, before anything: it computes on its own core, and leaves Ctrl-C to the one who started it."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")


def _do(folder: str, method: str, file: str, piece: tuple[Any, ...]) -> Any:
    """In a worker: one piece of work."""
    if "thing" not in MADE:
        MADE["thing"] = pickle.loads((Path(folder) / "make").read_bytes())()
    if MADE.get("file") != file:
        MADE["shared"], MADE["file"] = load_file(Path(folder) / file), file
    return getattr(MADE["thing"], method)(MADE["shared"], *piece)
