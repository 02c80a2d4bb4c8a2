"""Round: one round of all experiments inside a compiled program.

Each device works through its part of every cohort, then the devices add up what they have. All arrays have a leading
axis of experiments, written X; m is the number of clients of a round on a device, c the number of outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.sharding import PartitionSpec as P

import fedloom.engines.devices as machine
from fedloom.algorithms.method import Method, RoundState
from fedloom.combine.combined import heard, summed
from fedloom.combine.replies import Replies
from fedloom.engines.client_states import returned, taken
from fedloom.engines.collective import added, on_first, sometimes, together
from fedloom.engines.coordinates import by_coordinates
from fedloom.engines.lanes import Cohort, Total, work_through
from fedloom.engines.observed import Rounds, observed
from fedloom.engines.own_models import Exchange, outgoing
from fedloom.engines.pairs import Everyone
from fedloom.engines.plan import Plan
from fedloom.engines.readings import Worked, measured, readings, seen
from fedloom.engines.schedule import INIT, stream
from fedloom.engines.setting import Setting
from fedloom.engines.store import View
from fedloom.engines.users import totals
from fedloom.round.close import divide, step
from fedloom.tasks.task import Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

    Schedule = tuple[Int[Array, "rounds X devices m"], Int[Array, "rounds X devices m"] | None]

SCHEDULE = P(None, None, machine.AXIS)  # of a schedule (rounds, experiments, devices, clients) a device has its part


@dataclass(frozen=True, eq=False)
class Round(Setting):
    """One round of all experiments, as functions of what is on the devices."""

    def __call__(self, state: RoundState, coming: tuple[Schedule, Array]) -> tuple[RoundState, Rounds]:
        """Return the state after a round, and what the round did."""
        (clients, limit), last = jax.tree.map(lambda a: a[:, 0], coming[0]), coming[1]
        choice = self.choice(state, clients)
        kept = None if state.clients is None else taken(state.clients, clients)
        sent = outgoing(self.method, state, self.view.size)
        work = Cohort(
            self.task, self.plan, self.method, self.view, sent, self.seeds, state.round, clients, choice, kept,
            limit=limit,
        )  # fmt: skip
        return self.after(state, clients, last, choice, kept, *work_through(work))

    def choice(self, state: RoundState, clients: Int[Array, "X m"]) -> Int[Array, "X m"] | None:
        """Return the output that each client trains; ``None`` if there is only one."""
        routing = self.method.routing
        if routing.exchanges_models:
            return clients
        return (
            chosen(self.task, self.plan, self.method, self.view, state.variables, clients) if routing.chooses else None
        )

    def after(
        self,
        state: RoundState,
        clients: Int[Array, "X m"],
        last: Bool[Array, ""],
        choice: Int[Array, "X m"] | None,
        kept: PyTree | None,
        mine: Total,
        keeps: PyTree,
        read: dict[str, Array] | None = None,
    ) -> tuple[RoundState, Rounds]:
        """Return the state after a cohort's work, and what the round did.

        Args:
            state: the state before the round.
            clients: the clients of this device; -1 is none.
            last: True in the last round of a program.
            choice: the output that each client trained.
            kept: what the clients kept before their work.
            mine: what their replies add up to.
            keeps: what the clients keep after their work.
            read: what was read of their models, where other processes have read it.
        """
        if self.method.routing.exchanges_models:
            return Exchange(**vars(self))(state, clients, last, mine, keeps)
        plan, method = self.plan, self.method
        worked = Worked(method.local, state.variables, kept or {}, mine.update, keeps, choice)
        if plan.stacked:
            if read is None:
                read = readings(self.task, plan, method.readings, self.judged, worked, clients)
            mine = self.weighed(mine, read, state.round, clients, choice)
        measure = lambda view, moment: measured(self.task, plan, view, worked, clients, moment, seen)  # noqa: E731
        see = lambda: observed(self.judged, clients, measure)  # noqa: E731
        notes = together(plan, sometimes(last, see)) if plan.observed else {}
        total = added(plan, mine)
        replied = added(plan, jnp.any(clients >= 0, axis=1).astype(jnp.int32)) > 0
        counted = (replied if choice is None else replied[:, None]) & (total.weight > 0)
        each = jax.vmap if choice is None else lambda function: jax.vmap(jax.vmap(function))
        mean = each(divide)(total.update, total.weight)
        norm = jax.vmap(optax.tree.norm)(mean.params)
        broken = None if method.combiner.trusting else total.broken
        state = self.remember(state, clients, choice, keeps, counted)
        return self.stepped(state, mean, total.aside, counted), Rounds(norm, total.computed, notes, broken)

    def stepped(
        self, state: RoundState, update: Variables, sums: dict[str, PyTree], counted: Bool[Array, X * c]
    ) -> RoundState:
        """Return the state after the server's step of every output."""
        everybody = len(self.view.size)

        def one(method: Method, output: Any, update: Variables, sums: PyTree, counted: Array) -> Any:
            take = lambda o, u, s, c: step(method.server, o, u, s, everybody, c)  # noqa: E731
            return (jax.vmap(take) if counted.ndim else take)(output, update, sums, counted)

        output = state.variables, state.optimizer, state.broadcast
        variables, optimizer, broadcast = jax.vmap(one)(self.method, output, update, sums, counted)
        return replace(state, variables=variables, optimizer=optimizer, broadcast=broadcast, round=state.round + 1)

    def remember(
        self,
        state: RoundState,
        clients: Int[Array, "X m"],
        choice: Int[Array, "X m"] | None,
        keeps: PyTree,
        counted: Bool[Array, X * c],
    ) -> RoundState:
        """Return the state with what clients keep and choose.

        Clients keep what they had if no update of their output counted in this round.
        """
        everyone = together(self.plan, clients)
        if choice is not None:
            choice = together(self.plan, choice)
            state = replace(state, memory=jax.vmap(remembered)(self.method, state.memory, everyone, choice))
        if state.clients is None:
            return state
        counts = counted[:, None] if choice is None else jnp.take_along_axis(counted, choice, axis=1)
        keeps = together(self.plan, keeps)
        return replace(state, clients=returned(state.clients, jnp.where(counts, everyone, -1), keeps))

    def weighed(
        self,
        kept: Total,
        read: dict[str, Array],
        round: Int[Array, " X"],
        clients: Int[Array, "X m"],
        choice: Int[Array, "X m"] | None,
    ) -> Total:
        """Return what each output receives of updates that were kept: their weighted sum, or what the combiner makes.

        Weights may depend on what all devices' clients read.
        """
        plan, method = self.plan, self.method
        sizes = jnp.where(clients >= 0, self.view.size[clients], 0).astype(jnp.float32)
        hear = lambda a, updates, replies: heard(a.combiner, updates, replies)  # noqa: E731
        updates, mine = jax.vmap(hear)(method, kept.update, Replies(sizes, clients >= 0, read))
        rates = jax.vmap(lambda local, r: local.batches.rate(r))(method.local, round)
        every = replace(together(plan, mine), rate=rates)
        if choice is None:
            return self.weighed_one(kept, updates, every, clients.shape[1])
        outputs = method.routing.outputs(len(self.view.size))
        trained = together(plan, choice)
        each = [
            self.weighed_one(kept, updates, replace(every, present=every.present & (trained == j)), clients.shape[1])
            for j in range(outputs)
        ]
        side_by_side = lambda *a: jnp.stack(a, axis=1)  # noqa: E731
        update, weight = jax.tree.map(side_by_side, *[(one.update, one.weight) for one in each])
        of_output = (choice[..., None] == jnp.arange(outputs)).astype(jnp.float32)
        sums = jax.tree.map(lambda a: jnp.einsum("xmc,xm...->xc...", of_output, a), kept.aside)
        return replace(kept, update=update, weight=weight, aside=sums)

    def weighed_one(self, kept: Total, updates: Variables, every: Replies, m: int) -> Total:
        """Return what one output receives."""
        plan, method = self.plan, self.method
        weights, total = jax.vmap(weigh)(method, every)
        if not method.combiner.alone:
            each = lambda given: jax.vmap(lambda a, u, w: a.combiner.combine(u, w))(method, given, weights)  # noqa: E731
            if method.combiner.is_coordinatewise:
                found = by_coordinates(plan.mesh, each, updates)
            else:
                found = each(together(plan, updates))
            update, weight = on_first(plan, (found, (total > 0).astype(total.dtype)))
            return replace(kept, update=update, weight=weight)
        share = total / jnp.where(weights.sum(1) > 0, weights.sum(1), 1)
        if plan.mesh.size > 1:
            weights = lax.dynamic_slice_in_dim(weights, lax.axis_index(machine.AXIS) * m, m, 1)
            total = total / plan.mesh.size  # every device knows all of it, and they are about to be added up
        return replace(kept, update=jax.vmap(summed)(updates, weights, share), weight=total)


def weigh(method: Method, replies: Replies) -> tuple[Float[Array, " m"], Float[Array, ""]]:
    """Return the weight of each reply, and the number that the weighted sum of updates is divided by."""
    weights = jnp.where(replies.present, method.routing.weigh(replies), 0)
    return weights, method.routing.total(replies, weights)


def remembered(
    method: Method, memory: dict[str, PyTree], clients: Int[Array, " m"], choice: Int[Array, " m"]
) -> dict[str, PyTree]:
    """Return a routing's memory with the outputs that clients chose."""
    return method.routing.remember_choice(memory, clients, choice)


def chosen(
    task: Task, plan: Plan, method: Method, view: View, models: Variables, clients: Int[Array, "X m"]
) -> Int[Array, "X m"]:
    """Return the output that each client chooses, given the losses of all outputs on its training examples."""

    def one(method: Method, models: Variables, client: Array) -> Array:
        found = lax.map(lambda model: totals(task, view, model, view.start[client], view.size[client]), models)
        return method.routing.choose(found["loss"])

    def every(method: Method, models: Variables, clients: Array) -> Array:
        return lax.map(partial(one, method, models), jnp.maximum(clients, 0), batch_size=plan.at_once)

    found: Array = jax.vmap(every)(method, models, clients)
    return found


@partial(jax.jit, static_argnames=("task", "clients"))
def begun(task: Task, clients: int, method: Method, seeds: UInt32[Array, " X"]) -> RoundState:
    """Return every experiment's state before its first round.

    Outputs that clients choose among begin with different weights; clients' own models begin with the same.
    """

    def one(method: Method, seed: Array) -> RoundState:
        routing, many = method.routing, method.routing.outputs(clients)
        if routing.chooses:
            models = jax.vmap(lambda j: task.init(stream(seed, INIT, j)))(jnp.arange(many))
        elif routing.has_several_outputs:
            models = jax.tree.map(lambda a: jnp.broadcast_to(a, (many, *a.shape)), task.init(stream(seed, INIT)))
        else:
            models = task.init(stream(seed, INIT))
        return method.init(models, clients)

    states: RoundState = jax.vmap(one)(method, seeds)
    return states


@partial(jax.jit, static_argnames=("task", "plan", "cohort"))
def advance(
    task: Task,
    plan: Plan,
    cohort: int,
    method: Method,
    view: View,
    judged: dict[str, View],
    everyone: dict[str, Everyone],
    state: RoundState,
    seeds: UInt32[Array, " X"],
    schedule: Schedule,
) -> tuple[RoundState, Rounds]:
    """Return the state after some rounds in one program, and what they did.

    Args:
        task, plan, cohort, method, view, judged, everyone, seeds: as of :class:`Round`.
        state: the state before the rounds.
        schedule: (rounds, X, devices, m): the clients, and the most optimiser steps that each has time for, if a
            deadline may stop them.
    """

    def rounds(given: tuple[Any, ...], state: RoundState, schedule: Schedule) -> tuple[RoundState, Rounds]:
        last = jnp.arange(len(schedule[0])) == len(schedule[0]) - 1
        return lax.scan(Round(task, plan, cohort, *given), state, (schedule, last))

    given = method, view, judged, everyone, seeds
    done: tuple[RoundState, Rounds] = machine.on_each(plan.mesh, rounds, P(), P(), SCHEDULE)(given, state, schedule)
    return done


@partial(jax.jit, static_argnames=("task", "plan"))
def choices(task: Task, plan: Plan, method: Method, view: View, models: Variables) -> Int[Array, "X K"]:
    """Return the output that every client chooses; each device asks its share of the clients."""

    def all_of(method: Method, view: View, models: Variables) -> Array:
        members = len(jax.tree.leaves(models)[0])
        some = lambda which: jnp.broadcast_to(which, (members, len(which)))  # noqa: E731
        of = lambda which: chosen(task, plan, method, view, models, some(which))  # noqa: E731
        found: Array = machine.shared_out(plan.mesh, len(view.size), of)
        return found

    done: Array = machine.on_each(plan.mesh, all_of, P(), P(), P())(method, view, models)
    return done
