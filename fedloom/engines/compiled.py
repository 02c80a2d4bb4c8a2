"""The compiled engine: whole rounds, and whole experiments, in one XLA program in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import fedloom.engines.devices as machine
from fedloom.algorithms.method import Method
from fedloom.data.federated import FederatedData
from fedloom.data.shapes import shapes_of
from fedloom.engines.clock import Clock
from fedloom.engines.engine import Engine
from fedloom.engines.evaluate import judge
from fedloom.engines.plan import SHARE, lane_bytes, plan, useful_lanes
from fedloom.engines.program import Program
from fedloom.engines.store import store
from fedloom.errors import require
from fedloom.machine import warn_of_idle_cores
from fedloom.tasks.task import Task
from fedloom.trees import stack


@dataclass(frozen=True)
class Compiled(Engine):
    """The engine that compiles; build it with :func:`compiled`."""

    devices: int | None = None
    lanes: int | None = None
    stream: bool | None = None

    def group(self, data: FederatedData, task: Task, algorithm: Method) -> int:
        """How many experiments are best computed in one program: one after another on a CPU, where each then gives
        exactly the numbers it gives alone; as many as fit on an accelerator.
        """
        first = machine.devices()[0]
        if first.platform == "cpu" and self.lanes is None:
            return 1
        algorithm = algorithm.for_clients(len(data), data.client_names)
        sizes, batches, m = data.clients["train"].size, algorithm.local.batches, algorithm.cohort(len(data))
        rows = batches.rows(sizes)
        lanes = m
        if not algorithm.keeps_updates:
            lanes = min(m, useful_lanes(np.asarray(batches.steps(sizes, rows)), m))
        each = (self.lanes or lanes) * lane_bytes(task, algorithm.local, shapes_of(data.columns), rows)
        return max(1, int(SHARE * machine.memory(first) / each))

    def program(
        self,
        data: FederatedData,
        task: Task,
        algorithms: Sequence[Method],
        seeds: Sequence[int],
        observed: bool = False,
        clock: Clock | None = None,
    ) -> Program:
        """One program for experiments that differ in numbers only (learning rates, epochs, …) and in their seeds.

        Arguments:
            observed: whether it measures every client of a round before and after its work, on the client's test data.
            clock: on which machines it is to be; those that are lost or late do not count.
        """
        warn_of_idle_cores()
        own = "processes or ray, since the clients have code of their own"
        require(task.client is None, "engine", own, "compiled")
        require(len(algorithms) == len(seeds) >= 1, "seeds", "one for each algorithm", seeds)
        sizes = data.clients["train"].size
        algorithms = [algorithm.for_clients(len(data), data.client_names) for algorithm in algorithms]
        slowest = max(algorithms, key=lambda a: a.local.batches.most_steps(sizes))
        layout = plan(task, slowest, sizes, data.columns, len(seeds), self.lanes, self.devices, observed)
        kept = store(data, layout.mesh, self.stream)
        stacked = machine.place(stack(list(algorithms)), layout.mesh)
        numbers = np.array(seeds, np.uint32)
        m = slowest.cohort(len(data))
        whole = kept.resident is not None
        need = "one whose examples fit on the device, since users have models of their own"
        require(whole or not slowest.is_personal, "data", need, data.name)
        return Program(task, stacked, data, layout, kept, judge(task, layout, kept), numbers, m, clock)


def compiled(*, devices: int | None = None, lanes: int | None = None, stream: bool | None = None) -> Compiled:
    """The engine that compiles whole rounds and whole experiments into one XLA program, on CPU or GPU.

    It chooses by itself; the arguments overrule it.

    Arguments:
        devices: how many devices (CPU cores, GPUs) to use; all by default.
        lanes: how many clients each device computes side by side; by default one on a CPU, many on a GPU. Where clients
            take one step from the same weights, all of them.
        stream: whether examples are brought to the device a few rounds at a time; by default when they do not fit.
    """
    require(devices is None or devices >= 1, "devices", "at least 1", devices)
    require(lanes is None or lanes >= 1, "lanes", "at least 1", lanes)
    warn_of_idle_cores()
    return Compiled(devices, lanes, stream)
