"""Lanes: one round's local work, packed so that nobody waits for the largest client.

A lane computes one client at a time; when it finishes, it takes the next client of the cohort inside the same compiled
loop. So a cohort costs its total number of steps, not its largest client times its size. All arrays have two leading
axes, (experiments, lanes), here written X and L.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from fedloom.algorithms import Algorithm, Method
from fedloom.combine.replies import Replies
from fedloom.engines.plan import Plan
from fedloom.engines.schedule import client_key
from fedloom.engines.store import View
from fedloom.local.sgd import Work
from fedloom.shuffle import words
from fedloom.tasks.task import Batch, Task, Variables
from fedloom.trees import member, record, where

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, UInt32


UNROLL = 2  # steps in one turn of a segment's loop, for one experiment, which launching kernels holds up (H200)


@record
class Total:
    """What a cohort's replies add up to, for each experiment. Where their weights depend on each other, the updates are
    not added up but kept, one beside the other, and there is no weight yet.
    """

    update: Variables
    weight: Float[Array, " X"]
    computed: Float[Array, " X"]


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

    ``kinds`` says of each argument whether it differs by lane (l), by experiment (x), or is shared (s). An axis of
    length one is taken off and put back rather than vectorised over: a compiler finds its fast matrix products only
    without it.
    """
    lanes = _over(plan.lanes, function, [k == "l" for k in kinds])
    return _over(plan.members, lanes, [k != "s" for k in kinds])


def _over(size: int, function: Callable[..., Any], mapped: list[bool]) -> Callable[..., Any]:
    """The function over a leading axis of the mapped arguments."""
    if size > 1:
        return jax.vmap(function, in_axes=[0 if m else None for m in mapped], axis_size=size)

    def alone(*arguments: Any) -> Any:
        taken = [member(a, 0) if m else a for a, m in zip(arguments, mapped, strict=True)]
        return jax.tree.map(lambda a: a[None], function(*taken))

    return alone


def work_through(
    task: Task,
    plan: Plan,
    algorithm: Method,
    view: View,
    sent: Variables,
    seeds: UInt32[Array, " X"],
    round: Int[Array, " X"],
    cohort: Int[Array, "X m"],
) -> Total:
    """The sum of all replies of a cohort (-1 is nobody), each weighted; or all of them, where the plan says so.

    All are sent the experiment's model; or each its own, of a stack of all clients', where the plan says so.
    """
    local = algorithm.local
    present = cohort >= 0
    sizes = jnp.where(present, view.size[cohort], 0)
    starts = view.start[cohort]
    rates = jax.vmap(lambda a, r: a.rate(r))(local, round)
    whose = "l" if plan.apart else "x"
    begin = spread(plan, lambda v, a, lr: a.start(v, lr, plan.accumulates), f"{whose}xx")
    segment = spread(plan, _segment(task, plan), "llllllxxs")
    reply = spread(plan, lambda work, n, v, a: _weighted(plan, a, work, v, n), f"ll{whose}x")

    def given(slot: Int[Array, "X L"]) -> Variables:
        """What the clients in these slots were sent."""
        if not plan.apart:
            return sent
        client = jnp.take_along_axis(cohort, jnp.minimum(slot, cohort.shape[1] - 1), 1)
        return jax.tree.map(lambda models: jax.vmap(lambda a, c: a[c])(models, client), sent)

    shared = None if plan.apart else begin(sent, local, rates)

    def fresh(slot: Int[Array, "X L"]) -> Work:
        """Their work, not begun."""
        return begin(given(slot), local, rates) if shared is None else shared

    def advance(lanes: Lanes) -> Lanes:
        at = jnp.minimum(lanes.slot, cohort.shape[1] - 1)
        taken = lanes.slot < present.sum(1, keepdims=True)
        n, start, client = (jnp.take_along_axis(a, at, 1) for a in (sizes, starts, cohort))
        n = jnp.where(taken, n, 0)
        steps = jax.vmap(lambda a, s: a.steps(s, plan.rows))(local, n)
        keys = jax.vmap(lambda s, r, c: jax.vmap(lambda i: client_key(s, r, i))(c))(seeds, round, client)
        work = segment(lanes.work, lanes.step, n, start, steps, keys, local, rates, view)
        step = lanes.step + plan.segment if plan.segment else steps
        done = taken & (step >= steps)
        weight, replies = reply(work, n, given(lanes.slot), algorithm)
        weight = jnp.where(done, weight, 0)
        add = _put(lanes.slot, done) if plan.stacked else _add(weight)
        total = Total(
            update=jax.tree.map(add, lanes.total.update, replies),
            weight=lanes.total.weight + weight.sum(1),
            computed=lanes.total.computed + (plan.segment * plan.lanes if plan.segment else steps.sum(1)),
        )
        slot = jnp.where(done, lanes.next[:, None] + jnp.cumsum(done, 1) - 1, lanes.slot)
        next_work = work if plan.once else where(done, fresh(slot), work)
        return Lanes(slot, lanes.next + done.sum(1), jnp.where(done, 0, step), next_work, total)

    x = cohort.shape[0]
    zero = jnp.zeros(x)
    kept = (cohort.shape[1],) if plan.stacked else ()
    axes = 2 if plan.apart else 1  # of a stack of models, before a model's own
    nothing = Total(jax.tree.map(lambda a: jnp.zeros((x, *kept, *a.shape[axes:]), a.dtype), sent), zero, zero)
    slots = jnp.broadcast_to(jnp.arange(plan.lanes), (x, plan.lanes))
    lanes = Lanes(slots, jnp.full(x, plan.lanes), jnp.zeros_like(slots), fresh(slots), nothing)
    if plan.once:
        return advance(lanes).total
    busy = lambda lanes: jnp.any(lanes.slot < present.sum(1, keepdims=True))  # noqa: E731
    return lax.while_loop(busy, advance, lanes).total


def _weighted(plan: Plan, algorithm: Method, work: Work, sent: Variables, n: Array) -> tuple[Array, Variables]:
    reply = algorithm.local.finish(work, sent, n)
    if plan.stacked or not isinstance(algorithm, Algorithm):
        return jnp.float32(0), reply.update
    alone = Replies(reply.examples[None], jnp.ones(1, bool), {})
    return algorithm.weighting.weigh(alone)[0], reply.update


def _add(weight: Float[Array, "X L"]) -> Callable[[Array, Array], Array]:
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
        work: Work, done: Array, n: Array, start: Array, steps: Array, key: Array, local: Any, lr: Array, view: View
    ) -> Work:
        seed = words(key)

        def batch(step: Array) -> tuple[Batch, Array, Array]:
            place, share, last = local.batch(step, n, seed, plan.rows)
            rows = view.index[start + place]
            return {name: column[rows] for name, column in view.columns.items()}, share * (step < steps), last

        def advance(step: Array, work: Work, examples: Batch, share: Array, last: Array) -> Work:
            return local.step(task, work, examples, share, last, lr, jax.random.fold_in(key, step))

        if plan.segment is None:
            return lax.fori_loop(0, steps, lambda i, work: advance(i, work, *batch(i)), work)

        def body(work: Work, coming: tuple[Any, ...]) -> tuple[Work, None]:
            step, *rest = coming
            ahead = advance(step, work, *rest)
            still = local.scales_loss and not jax.tree.leaves(work.variables.state)  # where shares are 0 nothing moves
            return ahead if still else where(step < steps, ahead, work), None

        coming = done + jnp.arange(plan.segment)
        return lax.scan(body, work, (coming, *jax.vmap(batch)(coming)), unroll=1 if plan.members > 1 else UNROLL)[0]

    return segment
