"""Spreading: an engine whose clients work in a crew of workers, compiled there or by code of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np

import fedloom.engines.devices as machine
from fedloom.algorithms.method import Method
from fedloom.data.federated import FederatedData
from fedloom.engines.clock import Clock
from fedloom.engines.compiled import Compiled
from fedloom.engines.crew import Crew, Make
from fedloom.engines.engine import Engine
from fedloom.engines.evaluate import Judge
from fedloom.engines.plan import Plan
from fedloom.engines.program import Program
from fedloom.engines.spread import Spread
from fedloom.engines.station import NativeStation, Station
from fedloom.engines.store import store
from fedloom.errors import require
from fedloom.local.sgd import Sgd
from fedloom.tasks.task import Task
from fedloom.trees import stack


def station(
    data: FederatedData, task: Task, algorithms: Sequence[Method], seeds: Sequence[int], observed: bool = False
) -> Station | NativeStation:
    """Return an object that does pieces of work, for compiled clients or for clients with code of their own."""
    kind = Station if task.client is None else NativeStation
    return kind(data, task, algorithms, seeds, observed)


@dataclass(frozen=True)
class Spreading(Engine):
    """An engine whose clients work in a crew.

    Args:
        workers: the number of workers.
        pieces: the largest number of parts into which a cohort is cut.
    """

    workers: int
    pieces: int

    def crew(self, make: Make) -> Crew:
        """The workers, each with such a thing."""
        raise NotImplementedError

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
        sized = [algorithm.for_clients(len(data), data.client_names) for algorithm in algorithms]
        for algorithm in sized:
            self.check(algorithm, native, observed)
        stops = clock is not None and clock.stops
        require(
            not (native and stops), "late", "dropped, since clients with code of their own cannot be stopped", "stopped"
        )
        make = partial(station, data, task, sized, list(seeds), observed)
        if not native:
            plain = Compiled(devices=1).program(data, task, sized, seeds, observed, clock)
            crew = self.crew(make)
            return Spread(**{f.name: getattr(plain, f.name) for f in fields(plain)}, crew=crew, pieces=self.pieces)
        machine.devices()
        mesh = machine.mesh(machine.devices()[:1])
        first, largest = sized[0], int(data.clients["train"].size.max())
        rows = min(first.local.batches.batch_size or largest, largest)
        apart = first.routing.has_several_outputs
        layout = Plan(mesh, len(seeds), 1, None, False, rows, False, first.keeps_updates, apart, False)
        kept = store(data, mesh, None)
        numbers, m = np.array(seeds, np.uint32), first.cohort(len(data))
        never = Judge(task, layout, kept, 1)
        stacked = machine.place(stack(sized), mesh)
        return Spread(task, stacked, data, layout, kept, never, numbers, m, clock, self.crew(make), self.pieces)

    def check(self, algorithm: Method, native: bool, observed: bool) -> None:
        """Raise an :class:`ArgumentError` unless the algorithm can be spread."""
        if not native:
            return
        local = algorithm.local
        plain = type(local) is Sgd and local.is_plain_sgd and local.batches.period is None
        need = "plain local training in epochs, which clients with code of their own do in their own way"
        require(plain, "algorithm", need, local.describe())
        judges = algorithm.routing.exchanges_models and bool(algorithm.readings)
        need = "one in which users do not judge each other's models, with clients that have code of their own"
        require(not judges, "algorithm", need, algorithm.describe())
        require(not observed, "users", "left alone with clients that have code of their own", observed)
