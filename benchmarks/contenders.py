"""Contenders of `users_models.py`: ways to train the clients of a round, each in processes of its own that stay.

A contender of one process keeps the model where it trains. One of several processes divides the clients among them; the
model and each process's sum are in shared memory.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
from networks import Network, networks


@dataclass(frozen=True)
class Job:
    """What is trained.

    Arguments:
        network: the name of the network.
        device: ``cpu`` or ``gpu``.
        clients, examples: how many clients there are, and how many examples each has.
        batch: B.
        every: the rounds that fedloom computes in one program.
        seed: of the examples, the weights and the order of the examples.
        orders: the order of each client's examples in the first rounds: (rounds, clients, examples).
    """

    network: str
    device: str
    clients: int
    examples: int
    batch: int
    every: int
    seed: int
    orders: np.ndarray

    @property
    def described(self) -> Network:
        """The network."""
        return networks(self.device)[self.network]

    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the inputs and the labels of every client."""
        return self.described.draw(self.clients, self.examples, self.seed)

    def order(self, round: int, client: int) -> np.ndarray:
        """Return the order of a client's examples in a round; the orders begin again when they are used up."""
        order: np.ndarray = self.orders[round % len(self.orders), client]
        return order


class Loop:
    """Trains one client after another. A subclass does it with a library; weights are whatever that library keeps."""

    job: Job
    weights: Any
    start: Any

    def prepare(self, job: Job) -> int:
        """Build the network and place the examples; return how many numbers the model has."""
        raise NotImplementedError

    def train(self, weights: Any, client: int, order: np.ndarray) -> Any:
        """Return the weights after a client's epoch of SGD with momentum, which begins at rest."""
        raise NotImplementedError

    def add(self, total: Any, weights: Any) -> Any:
        """Return the sum."""
        raise NotImplementedError

    def divide(self, total: Any, by: int) -> Any:
        """Return the quotient."""
        raise NotImplementedError

    def wait(self) -> None:
        """Return when the device has done its work."""

    def flat(self, weights: Any) -> np.ndarray:
        """Return weights as one array of float32."""
        raise NotImplementedError

    def parts(self, flat: np.ndarray) -> Any:
        """Return weights that :meth:`flat` has flattened."""
        raise NotImplementedError

    def judge(self, weights: Any) -> float:
        """Return the loss of the first client's examples in evaluation mode."""
        raise NotImplementedError

    def run(self, rounds: int) -> list[float]:
        """Train some rounds from the first weights on; return the seconds of each."""
        self.weights, took = self.start, []
        for round in range(rounds):
            begun = time.perf_counter()
            self.weights = self.divide(self.total(self.weights, round, range(self.job.clients)), self.job.clients)
            self.wait()
            took.append(time.perf_counter() - begun)
        return took

    def total(self, weights: Any, round: int, clients: Sequence[int]) -> Any:
        """Return the sum of the weights of some clients after their work."""
        total = None
        for client in clients:
            trained = self.train(weights, client, self.job.order(round, client))
            total = trained if total is None else self.add(total, trained)
        return total

    def attach(self, name: str, place: int, clients: Sequence[int]) -> None:
        """Open the shared memory, in which this process has a place, for some of the clients."""
        self.memory, self.place, self.mine = SharedMemory(name), place, clients
        size = len(self.flat(self.start))
        self.rows = np.ndarray((len(self.memory.buf) // (4 * size), size), np.float32, self.memory.buf)

    def detach(self) -> None:
        """Close the shared memory."""
        del self.rows
        self.memory.close()

    def begin(self) -> None:
        """Write the first weights into the shared memory."""
        self.rows[0] = self.flat(self.start)

    def share(self, round: int) -> None:
        """Train this process's clients from the shared weights on, and write the sum."""
        self.rows[self.place] = self.flat(self.total(self.parts(self.rows[0]), round, self.mine))

    def loss(self, *, shared: bool = False) -> float:
        """Return the loss after the last round."""
        return self.judge(self.parts(self.rows[0]) if shared else self.weights)

    def first_loss(self) -> float:
        """Return the loss of the first weights."""
        return self.judge(self.start)


def serve(pipe: Connection, kind: str, options: Mapping[str, Any]) -> None:
    """A process of a contender: calls the methods that it is sent, until it is sent none."""
    loop: Any = None
    while (call := received(pipe)) is not None:
        method, arguments, named = call
        try:
            if loop is None:
                module, name = kind.split(":")
                loop = getattr(import_module(module), name)(**options)
            pipe.send((True, getattr(loop, method)(*arguments, **named)))
        except Exception as error:  # its contender is left out
            pipe.send((False, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"))


def received(pipe: Connection) -> Any:
    """Return the next message; None if the other end is gone."""
    try:
        return pipe.recv()
    except (EOFError, ConnectionResetError):
        return None


class Failed(Exception):
    """A contender could not do what it was asked to."""


@dataclass(frozen=True)
class Contender:
    """A way to train: the class of its loop, and how many processes it has.

    Arguments:
        kind: module and class of the loop.
        processes: how many; clients are divided among them.
        options: of the class.
        environment: variables of its processes.
    """

    kind: str
    processes: int = 1
    options: tuple[tuple[str, Any], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def started(self) -> Team:
        """Return its processes, which wait."""
        return Team(self)


class Team:
    """The processes of a contender."""

    def __init__(self, contender: Contender) -> None:
        self.memory: SharedMemory | None = None
        context = multiprocessing.get_context("spawn")
        before = dict(os.environ)
        os.environ.update(contender.environment)
        self.pipes, self.workers = [], []
        for _ in range(contender.processes):
            here, there = context.Pipe()
            given = there, contender.kind, dict(contender.options)
            worker = context.Process(target=serve, args=given, daemon=True)
            worker.start()
            there.close()
            self.pipes.append(here)
            self.workers.append(worker)
        os.environ.clear()
        os.environ.update(before)

    def ask(self, method: str, *arguments: Any, **named: Any) -> list[Any]:
        """Call a method in every process, and return all answers."""
        for i in range(len(self.pipes)):
            self._send(i, method, *arguments, **named)
        return self._answers(range(len(self.pipes)))

    def _send(self, i: int, method: str, *arguments: Any, **named: Any) -> None:
        with suppress(BrokenPipeError):  # the answer will say so
            self.pipes[i].send((method, arguments, named))

    def _answers(self, processes: Sequence[int]) -> list[Any]:
        answers = []
        for i in processes:
            try:
                answers.append(self.pipes[i].recv())
            except (EOFError, ConnectionResetError):
                self.workers[i].join()
                answers.append((False, f"its process ended with {self.workers[i].exitcode}"))
        for good, answer in answers:
            if not good:
                raise Failed(answer)
        return [answer for _, answer in answers]

    def first(self, method: str, **named: Any) -> Any:
        """Call a method in the first process, and return the answer."""
        self._send(0, method, **named)
        return self._answers([0])[0]

    def prepare(self, job: Job) -> int:
        """Build the network in every process; return how many numbers it has."""
        self._release()
        self.job = job
        numbers: int = self.ask("prepare", job)[0]
        if len(self.pipes) > 1:
            many = len(self.pipes)
            self.memory = SharedMemory(create=True, size=4 * numbers * (many + 1))
            self.rows = np.ndarray((many + 1, numbers), np.float32, self.memory.buf)
            parts = np.array_split(np.arange(job.clients), many)
            for i, part in enumerate(parts):
                self._send(i, "attach", self.memory.name, 1 + i, part.tolist())
            self._answers(range(many))
        return numbers

    def run(self, rounds: int) -> list[float]:
        """Train some rounds from the first weights on; return the seconds of each."""
        if self.memory is None:
            took: list[float] = self.ask("run", rounds)[0]
            return took
        self.first("begin")
        took = []
        for round in range(rounds):
            begun = time.perf_counter()
            self.ask("share", round)
            np.sum(self.rows[1:], axis=0, out=self.rows[0])
            self.rows[0] /= self.job.clients
            took.append(time.perf_counter() - begun)
        return took

    def loss(self) -> float:
        """Return the loss after the last round."""
        return float(self.first("loss", shared=self.memory is not None))

    def _release(self) -> None:
        if self.memory is not None:
            with suppress(Failed):
                self.ask("detach")
            del self.rows
            self.memory.close()
            self.memory.unlink()
            self.memory = None

    def close(self) -> None:
        """End its processes."""
        with suppress(BrokenPipeError, EOFError):
            self._release()
        for pipe, worker in zip(self.pipes, self.workers, strict=True):
            with suppress(BrokenPipeError):
                pipe.send(None)
            worker.join(10)
            if worker.is_alive():
                worker.kill()
