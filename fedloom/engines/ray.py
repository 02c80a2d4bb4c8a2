"""Ray: a crew of long-lived actors on this machine or a cluster, each with its share of the processors."""

from __future__ import annotations

import os
import re
import socket
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import fedloom.engines.devices as machine
from fedloom.engines.crew import Crew, Make, borne
from fedloom.engines.spreading import Spreading
from fedloom.errors import ArgumentError, CrewError, require
from fedloom.tasks.user_model import library

PATIENCE = 5.0  # seconds for a cluster's address to answer
STARTING = 120.0  # seconds for the first actor to begin


class Actor:
    """What an actor does: it makes its thing when there is work, and calls its methods."""

    def __init__(self, make: Make, gpus: float) -> None:
        os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
        if gpus:
            os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", str(0.9 * min(gpus, 1.0)))
        else:
            os.environ["JAX_PLATFORMS"] = "cpu"
        self.make, self.thing = make, None

    def begun(self) -> None:
        """Answer when there is an answer."""

    def do(self, method: str, shared: Mapping[str, np.ndarray], piece: tuple[Any, ...]) -> Any:
        """One piece of work."""
        if self.thing is None:
            import jax

            jax.config.update("jax_num_cpu_devices", 1)
            self.thing = self.make()
        return getattr(self.thing, method)(shared, *piece)


class Actors(Crew):
    """So many actors, begun when there is work."""

    def __init__(self, engine: RayEngine, make: Make) -> None:
        self.ray, self.engine = connected(engine), engine
        self.make = self.ray.put(make)  # once on every machine, arrays not copied
        options = {"num_cpus": engine.cpus, "num_gpus": engine.gpus, "max_restarts": 0}
        self.kind = self.ray.remote(Actor).options(**options)
        self.actors: list[Any] = []
        self.idle: list[Any] = []
        self.coming: dict[Any, Any] = {}

    def do(self, method: str, shared: Mapping[str, np.ndarray], pieces: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What a method gives for each piece of work, in their order."""
        ray, told = self.ray, self.ray.put(dict(shared))
        waiting, deaths = deque(range(len(pieces))), 0
        under_way: dict[Any, tuple[Any, int]] = {}
        found: dict[int, Any] = {}
        while len(found) < len(pieces):
            while len(self.idle) + len(self.coming) + len(under_way) < min(self.engine.workers, len(pieces)):
                self.begin()
            while self.idle and waiting:
                actor, i = self.idle.pop(), waiting.popleft()
                under_way[actor.do.remote(method, told, pieces[i])] = actor, i
            ready, _ = ray.wait([*under_way, *self.coming], timeout=None if under_way else STARTING)
            if not ready:
                raise CrewError(f"no actor could begin within {STARTING:.0f} s: {self.wanted()}")
            actor, at = under_way.pop(ready[0], (self.coming.pop(ready[0], None), -1))
            try:
                answer = ray.get(ready[0])
            except ray.exceptions.RayActorError as error:
                deaths += 1
                borne(deaths, method, last_word(error))
                self.actors.remove(actor)
                if at >= 0:
                    waiting.appendleft(at)
                continue
            except ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from None
            self.idle.append(actor)
            if at >= 0:
                found[at], deaths = answer, 0
        return [found[i] for i in range(len(pieces))]

    def begin(self) -> None:
        """One more actor, which is idle when it has begun."""
        actor = self.kind.remote(self.make, self.engine.gpus)
        self.actors.append(actor)
        self.coming[actor.begun.remote()] = actor

    def wanted(self) -> str:
        """What actors ask for, and what there is."""
        there = {k: v for k, v in self.ray.cluster_resources().items() if k in ("CPU", "GPU")}
        return f"each asks for {self.engine.cpus:g} CPUs and {self.engine.gpus:g} GPUs, and the cluster has {there}"

    def close(self) -> None:
        """Let the actors go."""
        for actor in self.actors:
            self.ray.kill(actor)
        self.actors, self.idle, self.coming = [], [], {}


@dataclass(frozen=True)
class RayEngine(Spreading):
    """The engine of actors; build it with :func:`ray`."""

    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0

    def crew(self, make: Make) -> Crew:
        """So many actors."""
        return Actors(self, make)


def ray(
    actors: int | None = None,
    *,
    address: str | None = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
    pieces: int = 16,
) -> RayEngine:
    """The engine that spreads clients over long-lived Ray actors: each runs the compiled engine on its share of the
    processors, or clients with code of their own.

    The model goes to each machine once a round, and sums of replies come back. An actor that dies is replaced, and its
    clients run again: results depend neither on the number of actors nor on failures.

    Arguments:
        actors: how many; by default one for each core of this machine.
        address: of a cluster, ``host:port`` or ``auto``; by default Ray is started on this machine.
        cpus, gpus: the share of processors that each actor asks for; with less than one GPU, so much of its memory.
        pieces: into how many parts a round's clients are cut at most, so as many actors at most work at once; part of
            what the result depends on, in rounding.
    """
    require(actors is None or actors >= 1, "actors", "at least 1", actors)
    require(pieces >= 1, "pieces", "at least 1", pieces)
    require(cpus > 0, "cpus", "above 0", cpus)
    require(gpus >= 0, "gpus", "at least 0", gpus)
    library("ray", "ray")
    return RayEngine(actors or machine.cores(), pieces, address=address, cpus=cpus, gpus=gpus)


def connected(engine: RayEngine) -> Any:
    """Ray's own module, connected to the cluster, or begun on this machine."""
    ray = library("ray", "ray")
    if ray.is_initialized():
        return ray
    if engine.address is not None and engine.address != "auto":
        _answers(engine.address)
    enough = max(machine.cores(), int(np.ceil(engine.workers * engine.cpus)))
    where = {"num_cpus": enough, "include_dashboard": False} if engine.address is None else {"address": engine.address}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"os.fork\(\) was called")  # what is forked becomes another program at once
        warnings.filterwarnings("ignore", category=FutureWarning, module="ray")
        try:
            ray.init(**where, log_to_driver=False, logging_level="error")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise CrewError(f"no Ray cluster at {engine.address}: {str(error).splitlines()[0]}") from error
    return ray


def last_word(error: Exception) -> str:
    """The last line of what Ray tells of an error, which says what it was."""
    lines = [line.strip() for line in re.sub("\x1b\\[[0-9;]*m", "", str(error)).splitlines()]
    return next((line for line in reversed(lines) if line), type(error).__name__)


def _answers(address: str) -> None:
    """Raise a :class:`CrewError` unless somebody answers at an address; Ray itself waits for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ArgumentError("address", "host:port, or auto", address)
    try:
        socket.create_connection((host.removeprefix("ray://"), int(port)), PATIENCE).close()
    except OSError as error:
        raise CrewError(f"no Ray cluster at {address}: {error}") from error
