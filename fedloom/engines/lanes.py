"""Lanes: one round's local work, packed so that nobody waits for the largest client.

A lane computes one client at a time; when it finishes, it takes the next client of the cohort inside the same compiled
loop. So a cohort costs its total number of steps, not its largest client times its size. All arrays have two leading
axes, (experiments, lanes), here written X and L.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from fedloom.algorithms.method import Method
from fedloom.combine.replies import Replies
from fedloom.engines.axes import over
from fedloom.engines.plan import Plan
from fedloom.engines.schedule import END, client_key
from fedloom.engines.store import View
from fedloom.engines.union import union
from fedloom.errors import require
from fedloom.local import Client, Local, Reply, Sent, StepBatch, StepPosition, Work
from fedloom.local.batches import of_client
from fedloom.local.scaffold import zeros
from fedloom.local.work import accumulating
from fedloom.shuffle import words
from fedloom.tasks.task import Batch, Task, Variables
from fedloom.trees import record, where

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt32


UNROLL = 2  # steps in one turn of a segment's loop, for one experiment, which launching kernels holds up (H200)


@record
class Total:
    """What a cohort's replies add up to, for each experiment. Where what they count or come to depends on all, the
    updates are not added up but kept, one beside the other, and there is no weight yet.

    Arguments:
        update: Σ weight · update.
        weight: Σ weight.
        aside: Σ of what they changed of what is told aside.
        computed: how many steps were computed.
        broken: how many replies do not count, because they are not finite.
    """

    update: Variables
    weight: Float[Array, " X"]
    aside: dict[str, PyTree]
    computed: Float[Array, " X"]
    broken: Float[Array, " X"]


@record
class Lanes:
    """The lanes between two segments.

    Arguments:
        slot: which of the cohort each lane is computing.
        next: the first of the cohort that no lane has taken.
        step: how many steps of its client each lane has done.
        work: each lane's work in progress.
        total: what the finished clients add up to.
    """

    slot: Int[Array, "X L"]
    next: Int[Array, " X"]
    step: Int[Array, "X L"]
    work: Work
    total: Total


def spread(plan: Plan, function: Callable[..., Any], kinds: str) -> Callable[..., Any]:
    """A function of one lane, over all lanes of all experiments.

    ``kinds`` says of each argument whether it differs by lane (l), by experiment (x), or is shared (s).
    """
    lanes = over(plan.lanes, function, [k == "l" for k in kinds])
    return over(plan.members, lanes, [k != "s" for k in kinds])


@dataclass(frozen=True, eq=False)
class Cohort:
    """A cohort's work in one round, on one device.

    Arguments:
        task, plan, algorithm, view: what is learned, how it is laid out, and from which examples.
        sent: what all are sent; where the plan says that models are apart, a stack of such.
        seeds, round: of each experiment.
        clients: who they are; -1 is nobody.
        which: of a stack that is sent, the one that each of them is.
        kept: what each of them kept until now, (X, m, …).
        first: the number of the first client of the data, from which random keys are made.
        limit: the most optimiser steps that each has time for, if a deadline may stop them.
    """

    task: Task
    plan: Plan
    algorithm: Method
    view: View
    sent: Sent
    seeds: UInt32[Array, " X"]
    round: Int[Array, " X"]
    clients: Int[Array, "X m"]
    which: Int[Array, "X m"] | None = None
    kept: PyTree | None = None
    first: Int[Array, ""] | int = 0
    limit: Int[Array, "X m"] | None = None

    @cached_property
    def many(self) -> Int[Array, "X 1"]:
        """How many there are in each experiment."""
        return (self.clients >= 0).sum(1, keepdims=True)

    @cached_property
    def rates(self) -> Float[Array, " X"]:
        """The learning rate of each experiment."""
        return jax.vmap(lambda a, r: a.batches.rate(r))(self.algorithm.local, self.round)

    @property
    def whose(self) -> str:
        """By what differs what is sent: lane or experiment."""
        return "l" if self.plan.apart else "x"

    def at(self, slot: Int[Array, "X L"]) -> Int[Array, "X L"]:
        """The same, or the last slot where there is none."""
        return jnp.minimum(slot, self.clients.shape[1] - 1)

    def given(self, slot: Int[Array, "X L"]) -> tuple[Sent, PyTree]:
        """What the clients in these slots were sent and have kept."""
        at = self.at(slot)
        own = self.sent if self.which is None else picked(self.sent, jnp.take_along_axis(self.which, at, 1))
        return own, {} if self.kept is None else picked(self.kept, at)

    def clients_in(self, slot: Int[Array, "X L"]) -> Int[Array, "X L"]:
        """Return the clients in these slots; the last one where there is none."""
        return jnp.take_along_axis(self.clients, self.at(slot), 1)

    def about(self, slot: Int[Array, "X L"], n: Array) -> tuple[Array, Array, Array | None, Array]:
        """Return the number of each of them, how many examples it has, its limit, and its random key."""
        limit = None if self.limit is None else jnp.take_along_axis(self.limit, self.at(slot), 1)
        return self.clients_in(slot) + self.first, n, limit, self.keys(slot)

    def keys(self, slot: Int[Array, "X L"]) -> Key[Array, "X L"]:
        """Return the random key of each of them in this round, apart from the keys of its steps."""
        numbers = self.clients_in(slot) + self.first
        one = lambda seed, round, number: client_key(seed, round, number, END)  # noqa: E731
        keys: Array = jax.vmap(jax.vmap(one, (None, None, 0)))(self.seeds, self.round, numbers)
        return keys

    def fresh(self, slot: Int[Array, "X L"]) -> Work:
        """Their work, not begun."""
        n = jnp.where(slot < self.many, self.view.size[self.clients_in(slot)], 0)
        begin = spread(self.plan, partial(_begun, self.plan), f"llll{self.whose}lxxx")
        about = self.about(slot, n)
        work: Work = begin(*about, *self.given(slot), self.algorithm.local, self.rates, self.round)
        return work

    def advance(self, state: tuple[Lanes, PyTree]) -> tuple[Lanes, PyTree]:
        """The next segment of every lane; lanes that finish a client put down its reply, and take the next."""
        lanes, keeping = state
        plan, taken = self.plan, lanes.slot < self.many
        work, n, steps = self.segment(lanes, taken)
        step = lanes.step + plan.segment if plan.segment else steps
        done = taken & (step >= steps)
        end = spread(plan, partial(_ended, plan), f"lllll{self.whose}lxxx")
        about = self.about(lanes.slot, n)
        found = end(work, *about, *self.given(lanes.slot), self.algorithm, self.rates, self.round)
        weight, counts, update, aside, keeps = found
        weight, put = jnp.where(done, weight, 0), _put(lanes.slot, done)
        steps_now = plan.segment * plan.lanes if plan.segment else steps.sum(1, dtype=jnp.float32)
        total = Total(
            update=jax.tree.map(put if plan.stacked else add_up(weight), lanes.total.update, update),
            weight=lanes.total.weight + weight.sum(1),
            aside=jax.tree.map(put if plan.apart else add_up(done.astype(jnp.float32)), lanes.total.aside, aside),
            computed=lanes.total.computed + steps_now,
            broken=lanes.total.broken + (done & ~counts).sum(1),
        )
        slot = jnp.where(done, lanes.next[:, None] + jnp.cumsum(done, 1, dtype=jnp.int32) - 1, lanes.slot)
        next_work = work if plan.once else where(done, self.fresh(slot), work)
        ahead = Lanes(slot, lanes.next + done.sum(1, dtype=jnp.int32), jnp.where(done, 0, step), next_work, total)
        return ahead, jax.tree.map(put, keeping, keeps)

    def united(self, rows: int) -> Total:
        """The work of all, where their examples are one batch, computed in pieces of so many rows."""
        there = self.clients >= 0
        n = jnp.where(there, self.view.size[self.clients], 0).astype(jnp.float32)
        weigh = lambda a, n, there: a.routing.weigh(Replies(n, there, {}))  # noqa: E731
        weights = jnp.where(there, jax.vmap(weigh)(self.algorithm, n, there), 0)
        shares = -self.rates[:, None] * weights / jnp.maximum(n, 1)
        sent = self.sent.variables
        update, computed = union(self.task, rows, self.view, sent.params, self.clients, shares)
        return Total(Variables(update, sent.state), weights.sum(1), {}, computed, jnp.zeros_like(computed))

    def segment(self, lanes: Lanes, taken: Bool[Array, "X L"]) -> tuple[Work, Array, Array]:
        """The work of every lane a segment later; and how many examples its client has, and takes steps."""
        local, view, client = self.algorithm.local, self.view, self.clients_in(lanes.slot)
        n = jnp.where(taken, view.size[client], 0)
        numbers, _, limit, own = self.about(lanes.slot, n)
        count = jax.vmap(lambda a, s, c, most: a.batches.of(c).steps(s, self.plan.rows, most))
        steps = count(local, n, numbers, limit).astype(jnp.int32)
        before = lambda a, r: (a.batches.steps_before(r), a.batches.shuffle_round(r))  # noqa: E731
        begun, ordered = jax.vmap(before)(local, self.round)
        keys = jax.vmap(lambda s, r, c: jax.vmap(lambda i: client_key(s, r, i))(c))(self.seeds, ordered, numbers)
        ahead = spread(self.plan, _segment(self.task, self.plan), "lllllllllxxxxs")
        start, rates, round = view.start[client], self.rates, self.round
        about = numbers, n, limit, own
        work = ahead(lanes.work, lanes.step, *about, start, steps, keys, begun, local, rates, round, view)
        return work, n, steps


def work_through(cohort: Cohort) -> tuple[Total, PyTree]:
    """The sum of all replies of a cohort, each weighted, or all of them, where the plan says so; and what each of the
    cohort keeps.
    """
    plan, (x, m) = cohort.plan, cohort.clients.shape
    if plan.union:
        return cohort.united(plan.union), cohort.kept or {}
    mixes = cohort.algorithm.routing.exchanges_models
    slots = jnp.broadcast_to(jnp.arange(plan.lanes, dtype=jnp.int32), (x, plan.lanes))
    taken = jnp.full(x, plan.lanes, jnp.int32)
    start = Lanes(slots, taken, jnp.zeros_like(slots), cohort.fresh(slots), nothing(plan, cohort.sent, m, mixes))
    if plan.once:
        lanes, keeps = cohort.advance((start, cohort.kept or {}))
    else:
        many = cohort.many  # before the loop, which must not be the first to need it
        lanes, keeps = lax.while_loop(
            lambda state: jnp.any(state[0].slot < many), cohort.advance, (start, cohort.kept or {})
        )
    return lanes.total, keeps


def picked(stack: PyTree, at: Int[Array, "X L"]) -> PyTree:
    """Those of a stack (X, …)."""
    return jax.tree.map(lambda a: jax.vmap(lambda a, i: a[i])(a, at), stack)


def nothing(plan: Plan, sent: Sent, m: int, mixes: bool) -> Total:
    """Return the sum of no replies.

    Args:
        plan: the layout of the work.
        sent: what clients are sent.
        m: the number of clients.
        mixes: True if clients mix models of their own, and send no changes to what they are sent beside the model.
    """
    axes = 2 if plan.apart else 1  # of what is sent, before a model's own
    x = len(jax.tree.leaves(sent)[0])
    room = (m,) if plan.stacked else ()
    update = jax.tree.map(lambda a: jnp.zeros((x, *room, *a.shape[axes:]), a.dtype), sent.variables)
    kept = room if plan.apart else ()
    aside = {} if mixes else jax.tree.map(lambda a: jnp.zeros((x, *kept, *a.shape[axes:]), a.dtype), sent.broadcast)
    return Total(update, jnp.zeros(x), aside, jnp.zeros(x), jnp.zeros(x))


def _client(n: Array, limit: Array | None, key: Array, local: Local, lr: Array, round: Array) -> Client:
    return Client(n, jnp.asarray(local.batches.shared_moves(n, limit)), lr, round, key, {})


def _begun(
    plan: Plan,
    who: Array,
    n: Array,
    limit: Array | None,
    key: Array,
    sent: Sent,
    kept: PyTree,
    local: Local,
    lr: Array,
    round: Array,
) -> Work:
    """Return a lane's work, not begun."""
    local = of_client(local, who)
    work = local.begin(sent, kept, _client(n, limit, key, local, lr, round))
    need = "work whose step applies the penalties that `begin` adds"
    require(local.applies_penalties or not work.penalties, "local", need, type(local).__name__)
    return accumulating(work) if plan.accumulates else work


def _ended(
    plan: Plan,
    work: Work,
    who: Array,
    n: Array,
    limit: Array | None,
    key: Array,
    sent: Sent,
    kept: PyTree,
    algorithm: Method,
    lr: Array,
    round: Array,
) -> tuple[Array, Array, Variables, dict[str, PyTree], PyTree]:
    """The weight of a lane's reply, where it depends on nothing else; whether it counts; the update; what it adds to
    what is told aside; and what its client keeps. Of one that does not count nothing remains: it tells nothing aside,
    and its client keeps what it had.
    """
    local = of_client(algorithm.local, who)
    reply = local.end(work, sent, kept, _client(n, limit, key, local, lr, round))
    update, aside = unpacked(reply, {} if algorithm.routing.exchanges_models else sent.broadcast)
    heard, counts = algorithm.combiner.heard(update)
    aside = where(counts, aside, jax.tree.map(jnp.zeros_like, aside))
    keeps = where(counts, reply.state, kept)
    if plan.stacked:
        return jnp.float32(0), counts, update, aside, keeps
    alone = Replies(n.astype(jnp.float32)[None], counts[None], {})
    weight = jnp.where(counts, algorithm.routing.weigh(alone)[0], 0)
    return weight, counts, heard, aside, keeps


def unpacked(reply: Reply, broadcast: dict[str, PyTree]) -> tuple[Variables, dict[str, PyTree]]:
    """Return the update of a reply, and its change of each broadcast tree; refuse what no engine delivers yet."""
    message, kinds = reply.message, {"params", "state"}
    require(set(message.mean) == kinds, "the mean of a message", "params and state", sorted(message.mean))
    need = f"of trees that are broadcast ({', '.join(sorted(broadcast)) or 'none'})"
    require(set(message.sum) <= set(broadcast), "the sum of a message", need, sorted(message.sum))
    require(not message.listed, "listed of a message", "empty, since no engine delivers it", sorted(message.listed))
    require(not reply.report, "the report of a reply", "empty, since no engine records it", sorted(reply.report))
    aside = {name: message.sum[name] if name in message.sum else zeros(tree) for name, tree in broadcast.items()}
    return Variables(message.mean["params"], message.mean["state"]), aside


def add_up(weight: Float[Array, "X L"]) -> Callable[[Array, Array], Array]:
    """Sum + Σ weight · reply over lanes."""
    return lambda total, replies: total + jnp.einsum("xl,xl...->x...", weight, replies)


def _put(slot: Int[Array, "X L"], done: Bool[Array, "X L"]) -> Callable[[Array, Array], Array]:
    """What is kept, with the replies of lanes that are done in their places."""

    def one(kept: Array, replies: Array, slot: Array, done: Array) -> Array:
        return kept.at[jnp.where(done, slot, len(kept))].set(replies, mode="drop")

    return lambda kept, replies: jax.vmap(one)(kept, replies, slot, done)


def _segment(task: Task, plan: Plan) -> Callable[..., Work]:
    """The next steps of one lane: a fixed number that finished lanes sit out, or exactly its client's."""

    def segment(
        work: Work,
        done: Array,
        who: Array,
        n: Array,
        limit: Array | None,
        own: Array,
        start: Array,
        steps: Array,
        key: Array,
        begun: Array,
        local: Local,
        lr: Array,
        round: Array,
        view: View,
    ) -> Work:
        local = of_client(local, who)
        seed, client = words(key), _client(n, limit, own, local, lr, round)

        def batch(step: Array) -> tuple[Batch, Array, StepPosition]:
            place, share, position = local.batches.batch(begun + step, n, seed, plan.rows)
            rows = view.index[start + place]
            return {name: column[rows] for name, column in view.columns.items()}, share * (step < steps), position

        def advance(step: Array, work: Work, examples: Batch, share: Array, position: StepPosition) -> Work:
            given = StepBatch(examples, share, position, jax.random.fold_in(key, begun + step))
            return local.step(task, work, given, client)

        def idles(work: Work) -> bool:
            return local.idle_step_is_noop and not jax.tree.leaves(work.variables.state) and not work.penalties

        if plan.segment is None:
            return lax.fori_loop(0, steps, lambda i, work: advance(i, work, *batch(i)), work)

        def body(work: Work, coming: tuple[Any, ...]) -> tuple[Work, None]:
            step, *rest = coming
            ahead = advance(step, work, *rest)
            return ahead if idles(work) else where(step < steps, ahead, work), None

        coming = done + jnp.arange(plan.segment)
        return lax.scan(body, work, (coming, *jax.vmap(batch)(coming)), unroll=1 if plan.members > 1 else UNROLL)[0]

    return segment
