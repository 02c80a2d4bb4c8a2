"""Engine: the protocol of everything that can compute rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedloom.algorithms.method import Method
from fedloom.data.federated import FederatedData
from fedloom.engines.clock import Clock
from fedloom.tasks.task import Task

if TYPE_CHECKING:
    from fedloom.engines.program import Program


class Engine:
    """A way to compute rounds. :meth:`program` is all that an engine must have."""

    def group(self, data: FederatedData, task: Task, algorithm: Method) -> int:  # noqa: ARG002
        """Return the number of experiments that one program computes best: one."""
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
        """Return one program for experiments that differ in numbers only (learning rates, epochs, …) and in seeds.

        Args:
            data: the examples of all clients.
            task: the model and its loss.
            algorithms: the method of each experiment.
            seeds: the seed of each experiment.
            observed: True to measure every client of a round before and after its work, on the client's test data.
            clock: the machines and links that are simulated; clients that are lost or late do not count.
        """
        raise NotImplementedError

    def follow(
        self,
        data: FederatedData,  # noqa: ARG002
        task: Task,  # noqa: ARG002
        methods: Sequence[Method],  # noqa: ARG002
        seeds: Sequence[int],  # noqa: ARG002
        observed: bool,  # noqa: ARG002
    ) -> Any:
        """Work for a process that drives the run, and return what it sends in the end; ``None`` if this one drives."""
        return None

    def lead(self, found: Any) -> None:
        """Send the processes that follow what came of a run."""
