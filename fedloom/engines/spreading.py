"""Spreading: an engine whose clients work in a crew of workers, compiled there or by code of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np

import fedloom.engines.devices as machine
from fedloom.algorithms import Algorithm, Clustered, Method, Personalised
from fedloom.data.federated import FederatedData
from fedloom.engines.clock import Clock
from fedloom.engines.compiled import Compiled
from fedloom.engines.crew import Crew, Make
from fedloom.engines.evaluate import Judge
from fedloom.engines.plan import Plan
from fedloom.engines.program import Program
from fedloom.engines.spread import Spread
from fedloom.engines.spread_peers import SpreadPeers
from fedloom.engines.station import NativeStation, Station
from fedloom.engines.store import store
from fedloom.errors import require
from fedloom.local.sgd import Sgd
from fedloom.tasks.task import Task
from fedloom.trees import stack


@dataclass(frozen=True)
class Spreading:
    """An engine whose clients work in a crew.

    Arguments:
        workers: how many workers.
        pieces: into how many parts a cohort is cut at most.
        native: whether it runs only clients with code of their own.
    """

    workers: int
    pieces: int
    native: bool = False

    def crew(self, make: Make) -> Crew:
        """The workers, each with such a thing."""
        raise NotImplementedError

    def group(self, data: FederatedData, task: Task, algorithm: Method) -> int:  # noqa: ARG002
        """How many experiments are best computed in one program: one."""
        return 1

    def program(
        self,
        data: FederatedData,
        task: Task,
        algorithms: Sequence[Method],
        seeds: Sequence[int],
        observed: bool = False,
        clock: Clock | None = None,
    ) -> Program:
        """One program for experiments that differ in numbers only and in their seeds; see :meth:`Compiled.program`."""
        native = task.client is not None
        require(native or not self.native, "task", "clients with code of their own (fedloom.clients.task)", task.name)
        sized = [algorithm.sized(len(data)) for algorithm in algorithms]
        for algorithm in sized:
            self.check(algorithm, native, observed)
        own = not isinstance(sized[0], Algorithm)
        station = NativeStation if native else Station
        make = partial(station, data, task, sized, list(seeds), observed)
        kind = SpreadPeers if own else Spread
        if not native:
            plain = Compiled(devices=1).program(data, task, sized, seeds, observed, clock)
            crew = self.crew(make)
            return kind(**{f.name: getattr(plain, f.name) for f in fields(plain)}, crew=crew, pieces=self.pieces)
        machine.devices()
        mesh = machine.mesh(machine.devices()[:1])
        first, largest = sized[0], int(data.clients["train"].size.max())
        rows = min(first.local.batches.batch_size or largest, largest)
        layout = Plan(mesh, len(seeds), 1, None, False, rows, False, own or first.stacked, own, False)
        kept = store(data, mesh, None)
        numbers, m = np.array(seeds, np.uint32), first.cohort(len(data))
        never = Judge(task, layout, kept, 1)
        stacked = machine.place(stack(sized), mesh)
        return kind(task, stacked, data, layout, kept, never, numbers, m, clock, self.crew(make), self.pieces)

    def check(self, algorithm: Method, native: bool, observed: bool) -> None:
        """Raise an :class:`ArgumentError` unless the algorithm can be spread."""
        need = "another: users choose among several models, which is compiled in one process"
        require(not isinstance(algorithm, Clustered), "algorithm", need, type(algorithm).__name__)
        if not native:
            return
        local = algorithm.local
        plain = type(local) is Sgd and local.is_plain_sgd and local.batches.period is None
        need = "plain local training in epochs, which clients with code of their own do in their own way"
        require(plain, "algorithm", need, local.describe())
        judges = isinstance(algorithm, Personalised) and bool(algorithm.readings)
        need = "one in which users do not judge each other's models, with clients that have code of their own"
        require(not judges, "algorithm", need, algorithm.describe())
        require(not observed, "users", "left alone with clients that have code of their own", observed)
