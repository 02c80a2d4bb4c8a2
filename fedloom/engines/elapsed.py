"""Elapsed: the simulated time and bytes of a program's rounds, client by client."""

from __future__ import annotations

from typing import Protocol

import jax.numpy as jnp
import numpy as np

from fedloom.algorithms.method import Method
from fedloom.combine.replies import Replies
from fedloom.data.federated import FederatedData
from fedloom.engines.clock import Clock, Message, Passed
from fedloom.engines.schedule import PEERS, stream
from fedloom.tasks.task import Variables
from fedloom.trees import member


class Timed(Protocol):
    """The facts about a program that its simulated time depends on."""

    @property
    def method(self) -> Method:
        """The methods of all experiments, stacked."""

    @property
    def data(self) -> FederatedData:
        """The examples of all clients."""

    @property
    def seeds(self) -> np.ndarray:
        """The seed of each experiment."""

    @property
    def m(self) -> int:
        """The number of clients in a round."""

    @property
    def clock(self) -> Clock | None:
        """The machines and links that are simulated, if any."""

    @property
    def message(self) -> Message:
        """The bytes that a client is sent in a round and sends back."""

    @property
    def moved(self) -> int:
        """The mean number of models that clients send in a round."""

    def asked(self, first: int, rounds: int) -> np.ndarray:
        """Return the clients that are asked in some rounds."""

    def steps_of(self, clients: np.ndarray, i: int) -> np.ndarray:
        """Return the steps that each of some clients takes in a round of one experiment."""


def answers(program: Timed, clock: Clock, asked: np.ndarray, round: int, i: int) -> np.ndarray:
    """Return True for each client that answers in time, of those that are asked in a round.

    Without a server, clients wait for each other however long it takes, so only lost ones do not answer.
    """
    if program.method.routing.has_server:
        return np.isfinite(served(program, clock, asked, round, i)[0])
    return clock.machines(len(program.data), round).there[asked]


def served(program: Timed, clock: Clock, asked: np.ndarray, round: int, i: int) -> tuple[np.ndarray, float]:
    """Return the seconds after which each reply reaches the server, and those after which the round ends."""
    steps, group = program.steps_of(asked, i), program.method.local.gradients_per_step
    return clock.served(asked, steps, program.message, len(program.data), round, group)


def limits(program: Timed, first: int, clients: np.ndarray) -> np.ndarray | None:
    """Return the most optimiser steps that clients have time for: the shape of the clients, (rounds, experiments, …).

    ``None`` if clients are never stopped.
    """
    clock = program.clock
    if clock is None or not clock.stops or not program.method.routing.has_server:
        return None
    group, users = program.method.local.gradients_per_step, len(program.data)
    found = [clock.possible(one, program.m, program.message, users, first + r, group) for r, one in enumerate(clients)]
    return np.stack(found).astype(np.int32)


def passed(program: Timed, before: Passed, first: int, rounds: int, i: int) -> Passed:
    """Return what has passed by the clock after some more rounds of an experiment."""
    assert program.clock is not None
    through = _through_server if program.method.routing.has_server else _between_peers
    return through(program, program.clock, before, first, rounds, i)


def _through_server(program: Timed, clock: Clock, before: Passed, first: int, rounds: int, i: int) -> Passed:
    now, ready, up, down = before.now, before.ready.copy(), before.up.copy(), before.down.copy()
    for round, asked in enumerate(program.asked(first, rounds)[:, i], first):
        took, over = served(program, clock, asked, round, i)
        there = clock.machines(len(program.data), round).there[asked]
        ready[asked[there]] = now + np.minimum(took[there], over)
        down[asked] += program.message.down
        up[asked[np.isfinite(took)]] += program.message.up
        now += over
    return Passed(now, ready, up, down)


def _between_peers(program: Timed, clock: Clock, before: Passed, first: int, rounds: int, i: int) -> Passed:
    ready, up, down = before.ready, before.up.copy(), before.down.copy()
    users, size = len(program.data), program.message.up
    for round, asked in enumerate(program.asked(first, rounds)[:, i], first):
        steps, there = np.zeros(users, int), clock.machines(users, round).there
        steps[asked] = program.steps_of(asked, i)
        awaited = models_awaited(program, round, i, asked, there)
        passes = awaited & there & there[:, None]
        up, down = up + size * passes.sum(0), down + size * passes.sum(1)
        ready = clock.exchanged(ready, steps, awaited, size, round)
    return Passed(float(ready.max()), ready, up, down)


def models_awaited(program: Timed, round: int, i: int, asked: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Return whose models each client waits for in a round, its own left out: [client, other].

    A client that draws others in every round draws among those that are present. Along a topology a client also waits
    for neighbours that are lost.
    """
    users = len(program.data)
    routing, wanted = member(program.method, i).routing, np.isin(np.arange(users), asked)
    replies = Replies(jnp.ones(users), jnp.asarray(wanted & there), {}, round=jnp.int32(round))
    key = stream(int(program.seeds[i]), PEERS, round)
    peers = None if routing.needs_all_models else routing.peers(key, replies, program.m, Variables({}, {}))
    found = np.full((users, users), peers is None and program.moved > 0)
    if peers is not None:
        found[np.arange(users)[:, None], np.asarray(peers)] = True
    np.fill_diagonal(found, False)
    return found & wanted & wanted[:, None]
