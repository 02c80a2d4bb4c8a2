"""Lanes: one round's local work, packed so that nobody waits for the largest client.

A lane computes one client at a time; when it finishes, it takes the next client of the cohort inside the same compiled
loop. So a cohort costs its total number of steps, not its largest client times its size. All arrays have two leading
axes, (experiments, lanes), here written X and L.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from fedloom.algorithms import Algorithm, Method
from fedloom.combine.replies import Replies
from fedloom.engines.axes import over
from fedloom.engines.plan import Plan
from fedloom.engines.schedule import client_key
from fedloom.engines.store import View
from fedloom.engines.union import union
from fedloom.local import Reply, Sent, Step, Turn, Work
from fedloom.shuffle import words
from fedloom.tasks.task import Batch, Task, Variables
from fedloom.trees import record, where

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32


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

    @cached_property
    def many(self) -> Int[Array, "X 1"]:
        """How many there are in each experiment."""
        return (self.clients >= 0).sum(1, keepdims=True)

    @cached_property
    def rates(self) -> Float[Array, " X"]:
        """The learning rate of each experiment."""
        return jax.vmap(lambda a, r: a.rate(r))(self.algorithm.local, self.round)

    @cached_property
    def shared(self) -> Work | None:
        """The work that all begin with, if it is the same."""
        alike = self.which is None and self.kept is None
        return self.begin(self.sent, {}) if alike else None

    @property
    def whose(self) -> str:
        """By what differs what is sent: lane or experiment."""
        return "l" if self.plan.apart else "x"

    def begin(self, sent: Sent, kept: PyTree) -> Work:
        """Work, not begun."""
        start = lambda s, k, a, lr: a.start(s, k, lr, self.plan.accumulates)  # noqa: E731
        work: Work = spread(self.plan, start, f"{self.whose}lxx")(sent, kept, self.algorithm.local, self.rates)
        return work

    def at(self, slot: Int[Array, "X L"]) -> Int[Array, "X L"]:
        """The same, or the last slot where there is none."""
        return jnp.minimum(slot, self.clients.shape[1] - 1)

    def given(self, slot: Int[Array, "X L"]) -> tuple[Sent, PyTree]:
        """What the clients in these slots were sent and have kept."""
        at = self.at(slot)
        own = self.sent if self.which is None else picked(self.sent, jnp.take_along_axis(self.which, at, 1))
        return own, {} if self.kept is None else picked(self.kept, at)

    def fresh(self, slot: Int[Array, "X L"]) -> Work:
        """Their work, not begun."""
        return self.begin(*self.given(slot)) if self.shared is None else self.shared

    def advance(self, state: tuple[Lanes, PyTree]) -> tuple[Lanes, PyTree]:
        """The next segment of every lane; lanes that finish a client put down its reply, and take the next."""
        lanes, keeping = state
        plan, taken = self.plan, lanes.slot < self.many
        work, n, steps = self.segment(lanes, taken)
        step = lanes.step + plan.segment if plan.segment else steps
        done = taken & (step >= steps)
        end = spread(plan, partial(_ended, plan), f"ll{self.whose}lxx")
        weight, counts, reply, keeps = end(work, n, *self.given(lanes.slot), self.algorithm, self.rates)
        weight, put = jnp.where(done, weight, 0), _put(lanes.slot, done)
        steps_now = plan.segment * plan.lanes if plan.segment else steps.sum(1, dtype=jnp.float32)
        total = Total(
            update=jax.tree.map(put if plan.stacked else add_up(weight), lanes.total.update, reply.update),
            weight=lanes.total.weight + weight.sum(1),
            aside=jax.tree.map(add_up(done.astype(jnp.float32)), lanes.total.aside, reply.aside),
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
        weigh = lambda a, n, there: a.weighting.weigh(Replies(n, there, {}))  # noqa: E731
        weights = jnp.where(there, jax.vmap(weigh)(self.algorithm, n, there), 0)
        shares = -self.rates[:, None] * weights / jnp.maximum(n, 1)
        sent = self.sent.variables
        update, computed = union(self.task, rows, self.view, sent.params, self.clients, shares)
        return Total(Variables(update, sent.state), weights.sum(1), {}, computed, jnp.zeros_like(computed))

    def segment(self, lanes: Lanes, taken: Bool[Array, "X L"]) -> tuple[Work, Array, Array]:
        """The work of every lane a segment later; and how many examples its client has, and takes steps."""
        local, view, at = self.algorithm.local, self.view, self.at(lanes.slot)
        client = jnp.take_along_axis(self.clients, at, 1)
        n = jnp.where(taken, view.size[client], 0)
        steps = jax.vmap(lambda a, s: a.steps(s, self.plan.rows))(local, n).astype(jnp.int32)
        numbers = client + self.first
        begun, ordered = jax.vmap(lambda a, r: (a.begun(r), a.ordered(r)))(local, self.round)
        keys = jax.vmap(lambda s, r, c: jax.vmap(lambda i: client_key(s, r, i))(c))(self.seeds, ordered, numbers)
        ahead = spread(self.plan, _segment(self.task, self.plan), "llllllxxxs")
        work = ahead(lanes.work, lanes.step, n, view.start[client], steps, keys, begun, local, self.rates, view)
        return work, n, steps


def work_through(cohort: Cohort) -> tuple[Total, PyTree]:
    """The sum of all replies of a cohort, each weighted, or all of them, where the plan says so; and what each of the
    cohort keeps.
    """
    plan, (x, m) = cohort.plan, cohort.clients.shape
    if plan.union:
        return cohort.united(plan.union), cohort.kept or {}
    slots = jnp.broadcast_to(jnp.arange(plan.lanes, dtype=jnp.int32), (x, plan.lanes))
    taken = jnp.full(x, plan.lanes, jnp.int32)
    start = Lanes(slots, taken, jnp.zeros_like(slots), cohort.fresh(slots), nothing(plan, cohort.sent, m))
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


def nothing(plan: Plan, sent: Sent, m: int) -> Total:
    """The sum of no replies."""
    axes = 2 if plan.apart else 1  # of what is sent, before a model's own
    x = len(jax.tree.leaves(sent)[0])
    room = (m,) if plan.stacked else ()
    update = jax.tree.map(lambda a: jnp.zeros((x, *room, *a.shape[axes:]), a.dtype), sent.variables)
    aside = {} if plan.apart else jax.tree.map(lambda a: jnp.zeros((x, *a.shape[axes:]), a.dtype), sent.aside)
    return Total(update, jnp.zeros(x), aside, jnp.zeros(x), jnp.zeros(x))


def _ended(
    plan: Plan, work: Work, n: Array, sent: Sent, kept: PyTree, algorithm: Method, lr: Array
) -> tuple[Array, Array, Reply, PyTree]:
    """The weight of a lane's reply, where it depends on nothing else; whether it counts; the reply; and what its client
    keeps. Of one that does not count nothing remains: it tells nothing aside, and its client keeps what it had.
    """
    reply, keeps = algorithm.local.finish(work, sent, kept, n, lr)
    if not isinstance(algorithm, Algorithm):
        return jnp.float32(0), jnp.asarray(True), reply, keeps
    heard, counts = algorithm.combiner.heard(reply.update)
    aside = where(counts, reply.aside, jax.tree.map(jnp.zeros_like, reply.aside))
    reply, keeps = replace(reply, aside=aside), where(counts, keeps, kept)
    if plan.stacked:
        return jnp.float32(0), counts, reply, keeps
    alone = Replies(reply.examples[None], counts[None], {})
    weight = jnp.where(counts, algorithm.weighting.weigh(alone)[0], 0)
    return weight, counts, replace(reply, update=heard), keeps


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
        n: Array,
        start: Array,
        steps: Array,
        key: Array,
        begun: Array,
        local: Any,
        lr: Array,
        view: View,
    ) -> Work:
        seed = words(key)

        def batch(step: Array) -> tuple[Batch, Array, Turn]:
            place, share, turn = local.batch(begun + step, n, seed, plan.rows)
            rows = view.index[start + place]
            return {name: column[rows] for name, column in view.columns.items()}, share * (step < steps), turn

        def advance(step: Array, work: Work, examples: Batch, share: Array, turn: Turn) -> Work:
            return local.step(task, work, Step(examples, share, turn, lr, jax.random.fold_in(key, begun + step)))

        if plan.segment is None:
            return lax.fori_loop(0, steps, lambda i, work: advance(i, work, *batch(i)), work)

        def body(work: Work, coming: tuple[Any, ...]) -> tuple[Work, None]:
            step, *rest = coming
            ahead = advance(step, work, *rest)
            return ahead if local.still(work) else where(step < steps, ahead, work), None

        coming = done + jnp.arange(plan.segment)
        return lax.scan(body, work, (coming, *jax.vmap(batch)(coming)), unroll=1 if plan.members > 1 else UNROLL)[0]

    return segment
