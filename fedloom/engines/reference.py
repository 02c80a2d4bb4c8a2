"""Reference: a round as a plain Python loop over clients, to read, to debug with, and to compare other engines with.

It computes one experiment, one client after another, without compiling a round. It shares the parts of a method and the
end of a round (:mod:`fedloom.round.close`) with all engines, and their measurements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedloom.algorithms.method import Method, RoundState
from fedloom.combine.combined import heard, summed
from fedloom.combine.replies import Reading, Replies
from fedloom.data.federated import FederatedData
from fedloom.engines.clock import Clock
from fedloom.engines.compiled import Compiled
from fedloom.engines.elapsed import limits
from fedloom.engines.engine import Engine
from fedloom.engines.observed import Rounds
from fedloom.engines.program import Program
from fedloom.engines.round import weigh
from fedloom.engines.schedule import END, PEERS, client_key, stream
from fedloom.engines.store import part_of
from fedloom.errors import FedloomError, require
from fedloom.local import Client, Reply, Sent, StepBatch
from fedloom.local.batches import of_client
from fedloom.local.work import accumulating
from fedloom.round.close import divide, step
from fedloom.shuffle import words
from fedloom.tasks.task import Batch, Task, Variables
from fedloom.trees import member, stack

State = dict[str, Any]


class RoundError(FedloomError):
    """Local work or an exchange failed; the message names the stage, the client and the round."""


@dataclass(frozen=True)
class ReferenceProgram(Program):
    """A program that computes rounds as a loop over clients; made by :meth:`Reference.program`."""

    def advance(self, state: RoundState, first: int, rounds: int) -> tuple[RoundState, Rounds]:
        """Return the state some rounds later, and what those rounds did."""
        cohorts, did = self.cohorts(first, rounds), []
        state = member(self.entered(state, cohorts), 0)
        for number in range(first, first + rounds):
            cohort = [int(client) for client in cohorts[number - first, 0] if client >= 0]
            most = limits(self, number, np.array([[cohort]], np.int32))
            limit = [None] * len(cohort) if most is None else most[0, 0].tolist()
            state, norm, computed, broken = self.round(member(self.method, 0), state, cohort, limit)
            did.append(Rounds(norm[None], computed[None], {}, broken))
        done = jax.tree.map(lambda *a: np.stack([np.asarray(b) for b in a]), *did)
        return stack([state]), replace(done, cohort=cohorts)

    def round(
        self, method: Method, state: RoundState, cohort: Sequence[int], limits: Sequence[int | None]
    ) -> tuple[RoundState, Any, Any, Any]:
        """Return the state after a round, the norm of the update, the steps computed, and the updates rejected.

        Args:
            method: the method.
            state: the state before the round.
            cohort: the clients.
            limits: the most optimiser steps that each has time for; ``None`` is any number.
        """
        routing = method.routing
        outputs = [self.output(method, state, client) for client in cohort]  # select and broadcast
        each = zip(cohort, outputs, limits, strict=True)
        replies = [self.work(method, state, client, at, limit) for client, at, limit in each]
        steps = jnp.float32(sum(int(self.steps(np.array([[client]]))[0, 0]) for client in cohort))
        updates = [Variables(reply.message.mean["params"], reply.message.mean["state"]) for reply in replies]
        if routing.exchanges_models:
            state, norm = self.exchange(method, state, cohort, updates, replies)
            return state, norm, steps, None
        state, norm, broken = self.close_outputs(method, state, cohort, outputs, updates, replies)
        return state, norm, steps, None if method.combiner.trusting else broken[None]

    def output(self, method: Method, state: RoundState, client: int) -> int | None:
        """Return the output that a client trains; ``None`` if there is only one."""
        routing = method.routing
        if not routing.chooses:
            return client if routing.exchanges_models else None
        losses = [self.measure(member(state.variables, j), "train", client)["loss"] for j in range(routing.outputs(0))]
        return int(routing.choose(jnp.array(losses)))

    def received(self, method: Method, state: RoundState, output: int | None) -> Sent:
        """Return what a client that trains an output is sent."""
        if output is None:
            return state.sent
        if not method.routing.exchanges_models:
            return member(state.sent, output)
        sizes = jnp.asarray(self.data.clients["train"].size)
        told = method.routing.broadcast(state.variables, state.memory, sizes)
        return member(Sent(state.variables, told), output)

    def work(self, method: Method, state: RoundState, client: int, output: int | None, limit: int | None) -> Reply:
        """Return the reply of a client: begin, one step after another, end."""
        local, number = of_client(method.local, client), state.round
        batches = local.batches
        sent, kept, n = self.received(method, state, output), row(state, client), self.size("train", client)
        lr, before = batches.rate(number), batches.steps_before(number)
        seed, who = jnp.uint32(self.seeds[0]), jnp.int32(client)
        key = client_key(seed, batches.shuffle_round(number), who)
        most, own = None if limit is None else np.asarray(limit), client_key(seed, number, who, END)
        about = Client(n, jnp.asarray(batches.shared_moves(n, most)), lr, number, own, {})
        with stage("begin", client, number):
            work = local.begin(sent, kept, about)
        work = accumulating(work) if self.plan.accumulates else work
        for i in range(int(batches.steps(n, self.plan.rows, most))):
            places, shares, position = batches.batch(before + i, n, words(key), self.plan.rows)
            examples = self.examples("train", client, places)
            batch = StepBatch(examples, shares, position, jax.random.fold_in(key, before + i))
            with stage(f"step {i + 1}", client, number):
                work = local.step(self.task, work, batch, about)
        with stage("end", client, number):
            return local.end(work, sent, kept, about)

    def close_outputs(
        self,
        method: Method,
        state: RoundState,
        cohort: Sequence[int],
        outputs: Sequence[int | None],
        updates: Sequence[Variables],
        replies: Sequence[Reply],
    ) -> tuple[RoundState, Any, Any]:
        """Return the state after the server's step of every output."""
        if not cohort:
            return replace(state, round=state.round + 1), jnp.float32(0), jnp.float32(0)
        found = self.replies(method, state, cohort, outputs, updates, replies)
        accepted, found = heard(method.combiner, stack(list(updates)), found)
        broken = jnp.float32((~found.present).sum())
        sums = stack([reply.message.sum for reply in replies])
        ends, norms = [], []
        several = method.routing.has_several_outputs
        for j in range(method.routing.outputs(len(self.data))):
            mine = found.present & jnp.array([at in (None, j) for at in outputs])
            weights, total = weigh(method, replace(found, present=mine))
            if method.combiner.alone:
                share = total / jnp.where(weights.sum() > 0, weights.sum(), 1)
                update = divide(summed(accepted, weights, share), total)
            else:
                update = method.combiner.combine(accepted, weights)
            before = (state.variables, state.optimizer, state.broadcast)
            before = member(before, j) if several else before
            told = jax.tree.map(lambda a, mine=mine: jnp.einsum("m,m...->...", mine.astype(jnp.float32), a), sums)
            told = {name: told.get(name, jax.tree.map(jnp.zeros_like, tree)) for name, tree in before[2].items()}
            ends.append((*step(method.server, before, update, told, len(self.data), total > 0), total > 0))
            norms.append(update.params)
        variables, optimizer, broadcast, counted = stack(ends) if several else ends[0]
        for client, at, reply, present in zip(cohort, outputs, replies, found.present, strict=True):
            if present and bool(counted if at is None else counted[at]):
                state = with_row(state, client, reply.state)
        if several:
            memory = method.routing.remember_choice(state.memory, jnp.array(cohort), jnp.array(outputs))
            state = replace(state, memory=memory)
        ahead = replace(state, variables=variables, optimizer=optimizer, broadcast=broadcast, round=state.round + 1)
        return ahead, optax.tree.norm(norms), broken

    def replies(
        self,
        method: Method,
        state: RoundState,
        cohort: Sequence[int],
        outputs: Sequence[int | None],
        updates: Sequence[Variables],
        replies: Sequence[Reply],
    ) -> Replies:
        """Return what weights may depend on, beside the updates."""
        read: dict[str, list[Any]] = {need.name: [] for need in method.readings}
        for client, at, update, reply in zip(cohort, outputs, updates, replies, strict=True):
            model = self.received(method, state, at).variables
            for need in method.readings:
                if need.moment == "before":
                    used = method.local.model(model, row(state, client))
                else:
                    used = method.local.model(jax.tree.map(jnp.add, model, update), reply.state)
                read[need.name].append(self.measure(used, need.part, client)[need.metric])
        sizes = jnp.array([float(self.size("train", client)) for client in cohort])
        rate = method.local.batches.rate(state.round)
        return Replies(sizes, jnp.ones(len(cohort), bool), {name: jnp.array(a) for name, a in read.items()}, rate=rate)

    def exchange(
        self,
        method: Method,
        state: RoundState,
        cohort: Sequence[int],
        updates: Sequence[Variables],
        replies: Sequence[Reply],
    ) -> tuple[RoundState, Any]:
        """Return the state after clients have mixed their models."""
        users, routing, trained, squares = len(self.data), method.routing, state.variables, jnp.float32(0)
        for client, update, reply in zip(cohort, updates, replies, strict=True):
            trained = jax.tree.map(lambda a, u, client=client: a.at[client].add(u), trained, update)
            squares += optax.tree.norm(update.params, squared=True)
            state = with_row(state, client, reply.state)
        present = jnp.zeros(users, bool).at[jnp.array(cohort, jnp.int32)].set(True)
        sizes = jnp.asarray(self.data.clients["train"].size, jnp.float32)
        found = Replies(sizes, present, {}, round=state.round)
        peers = routing.peers(stream(int(self.seeds[0]), PEERS, state.round), found, self.m, trained)
        whose = np.broadcast_to(np.arange(users), (users, users)) if peers is None else np.asarray(peers)
        read = {}
        for need in routing.readings:
            models = trained if need.moment == "after" else state.variables
            read[need.name] = self.cross_readings(models, need, whose)
        with stage("exchange", None, state.round):
            given = state.variables, trained, state.memory, replace(found, readings=read), peers
            models, memory = routing.exchange(*given)
        return replace(state, variables=models, memory=memory, round=state.round + 1), jnp.sqrt(squares / users)

    def cross_readings(self, models: Variables, need: Reading, whose: np.ndarray) -> Any:
        """Return a measure of some clients' models on each client's data: row i is what client i reads."""
        value = lambda i, j: self.measure(member(models, int(j)), need.part, i)[need.metric]  # noqa: E731
        return jnp.array([[value(i, j) for j in others] for i, others in enumerate(whose)])

    def measure(self, model: Variables, part: str, client: int) -> dict[str, Any]:
        """Return the mean metrics of a model on a client's examples of a part."""
        n = self.size(part, client)
        values = self.task.metrics(model, self.examples(part, client, np.arange(n)))
        return {name: jnp.sum(value) / n for name, value in values.items() if name != "count"}

    def size(self, part: str, client: int) -> Any:
        """Return the number of a client's examples of a part."""
        return jnp.int32(part_of(self.data, part)[1].size[client])

    def examples(self, part: str, client: int, places: Any) -> Batch:
        """Return some of a client's examples of a part."""
        index, ranges = part_of(self.data, part)
        rows = index[int(ranges.start[client]) + np.asarray(places)]
        return {name: jnp.asarray(column[rows]) for name, column in self.data.columns.items()}


def row(state: RoundState, client: int) -> State:
    """Return what a client keeps."""
    if state.clients is None:
        return {}
    kept: State = member(state.clients.rows, int(state.clients.place[client]))
    return kept


def with_row(state: RoundState, client: int, kept: State) -> RoundState:
    """Return the state in which a client keeps something else."""
    if state.clients is None:
        return state
    at = int(state.clients.place[client])
    rows = jax.tree.map(lambda a, new: a.at[at].set(new), state.clients.rows, kept)
    return replace(state, clients=replace(state.clients, rows=rows))


@contextmanager
def stage(name: str, client: int | None, round: Any) -> Iterator[None]:
    """Add the stage, the client and the round to an error's message."""
    try:
        yield
    except Exception as error:
        who = "" if client is None else f" of client {client}"
        raise RoundError(f"{name}{who} failed in round {int(round) + 1}: {error}") from error


@dataclass(frozen=True)
class Reference(Engine):
    """The engine that computes rounds as a loop over clients; build it with :func:`reference`."""

    def program(
        self,
        data: FederatedData,
        task: Task,
        methods: Sequence[Method],
        seeds: Sequence[int],
        observed: bool = False,
        clock: Clock | None = None,
    ) -> Program:
        """Return the program of one experiment; see :meth:`fedloom.engines.Compiled.program`."""
        require(len(seeds) == 1, "seeds", "one, with the reference engine", list(seeds))
        require(not observed, "users", "left out with the reference engine, which does not observe clients", observed)
        plain = Compiled(devices=1).program(data, task, methods, seeds, observed, clock)
        return ReferenceProgram(**{f.name: getattr(plain, f.name) for f in fields(plain)})


def reference() -> Reference:
    """Return the engine that computes rounds as a plain loop over clients.

    It is slow, and meant for debugging: an error names the stage, the client and the round.
    """
    return Reference()
