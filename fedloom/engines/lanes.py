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
from fedloom.local import Reply, Sent, Turn, Work
from fedloom.shuffle import words
from fedloom.tasks.task import Batch, Task, Variables
from fedloom.trees import member, record, where

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32


UNROLL = 2  # steps in one turn of a segment's loop, for one experiment, which launching kernels holds up (H200)


@record
class Total:
    """What a cohort's replies add up to, for each experiment. Where their weights depend on each other, the updates are
    not added up but kept, one beside the other, and there is no weight yet.

    Arguments:
        update: Σ weight · update.
        weight: Σ weight.
        aside: Σ of what they changed of what is told aside.
        computed: how many steps were computed.
    """

    update: Variables
    weight: Float[Array, " X"]
    aside: dict[str, PyTree]
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
    sent: Sent,
    seeds: UInt32[Array, " X"],
    round: Int[Array, " X"],
    cohort: Int[Array, "X m"],
    which: Int[Array, "X m"] | None = None,
    kept: PyTree | None = None,
) -> tuple[Total, PyTree]:
    """The sum of all replies of a cohort (-1 is nobody), each weighted, or all of them, where the plan says so; and
    what each of the cohort keeps.

    Arguments:
        sent: what all are sent; where the plan says that models are apart, a stack of such.
        which: of the stack, the one that each of the cohort is sent.
        kept: what each of the cohort kept until now, (X, m, …).
    """
    local, m = algorithm.local, cohort.shape[1]
    present = cohort >= 0
    sizes = jnp.where(present, view.size[cohort], 0)
    starts = view.start[cohort]
    rates = jax.vmap(lambda a, r: a.rate(r))(local, round)
    whose = "l" if plan.apart else "x"
    begin = spread(plan, lambda s, k, a, lr: a.start(s, k, lr, plan.accumulates), f"{whose}lxx")
    begun = jax.vmap(lambda a, r: a.begun(r))(local, round)
    ordered = jax.vmap(lambda a, r: a.ordered(r))(local, round)
    segment = spread(plan, _segment(task, plan), "llllllxxxs")
    end = spread(plan, lambda work, n, s, k, a, lr: _ended(plan, a, work, s, k, n, lr), f"ll{whose}lxx")

    def pick(stack: PyTree, at: Int[Array, "X L"]) -> PyTree:
        """Those of a stack (X, …)."""
        return jax.tree.map(lambda a: jax.vmap(lambda a, i: a[i])(a, at), stack)

    def given(slot: Int[Array, "X L"]) -> tuple[Sent, PyTree]:
        """What the clients in these slots were sent and have kept."""
        at = jnp.minimum(slot, m - 1)
        own = sent if which is None else pick(sent, jnp.take_along_axis(which, at, 1))
        return own, {} if kept is None else pick(kept, at)

    shared: Work | None = begin(sent, {}, local, rates) if which is None and kept is None else None

    def fresh(slot: Int[Array, "X L"]) -> Work:
        """Their work, not begun."""
        return begin(*given(slot), local, rates) if shared is None else shared

    def advance(state: tuple[Lanes, PyTree]) -> tuple[Lanes, PyTree]:
        lanes, keeping = state
        at = jnp.minimum(lanes.slot, m - 1)
        taken = lanes.slot < present.sum(1, keepdims=True)
        n, start, client = (jnp.take_along_axis(a, at, 1) for a in (sizes, starts, cohort))
        n = jnp.where(taken, n, 0)
        steps = jax.vmap(lambda a, s: a.steps(s, plan.rows))(local, n)
        keys = jax.vmap(lambda s, r, c: jax.vmap(lambda i: client_key(s, r, i))(c))(seeds, ordered, client)
        work = segment(lanes.work, lanes.step, n, start, steps, keys, begun, local, rates, view)
        step = lanes.step + plan.segment if plan.segment else steps
        done = taken & (step >= steps)
        weight, reply, keeps = end(work, n, *given(lanes.slot), algorithm, rates)
        weight = jnp.where(done, weight, 0)
        put = _put(lanes.slot, done)
        total = Total(
            update=jax.tree.map(put if plan.stacked else _add(weight), lanes.total.update, reply.update),
            weight=lanes.total.weight + weight.sum(1),
            aside=jax.tree.map(_add(done.astype(jnp.float32)), lanes.total.aside, reply.aside),
            computed=lanes.total.computed + (plan.segment * plan.lanes if plan.segment else steps.sum(1)),
        )
        slot = jnp.where(done, lanes.next[:, None] + jnp.cumsum(done, 1, dtype=jnp.int32) - 1, lanes.slot)
        next_work = work if plan.once else where(done, fresh(slot), work)
        ahead = Lanes(slot, lanes.next + done.sum(1, dtype=jnp.int32), jnp.where(done, 0, step), next_work, total)
        return ahead, jax.tree.map(put, keeping, keeps)

    x = cohort.shape[0]
    slots = jnp.broadcast_to(jnp.arange(plan.lanes, dtype=jnp.int32), (x, plan.lanes))
    taken = jnp.full(x, plan.lanes, jnp.int32)
    start = Lanes(slots, taken, jnp.zeros_like(slots), fresh(slots), nothing(plan, sent, m))
    if plan.once:
        lanes, keeps = advance((start, kept or {}))
    else:
        busy = lambda state: jnp.any(state[0].slot < present.sum(1, keepdims=True))  # noqa: E731
        lanes, keeps = lax.while_loop(busy, advance, (start, kept or {}))
    return lanes.total, keeps


def nothing(plan: Plan, sent: Sent, m: int) -> Total:
    """The sum of no replies."""
    axes = 2 if plan.apart else 1  # of what is sent, before a model's own
    x = len(jax.tree.leaves(sent)[0])
    room = (m,) if plan.stacked else ()
    update = jax.tree.map(lambda a: jnp.zeros((x, *room, *a.shape[axes:]), a.dtype), sent.variables)
    aside = {} if plan.apart else jax.tree.map(lambda a: jnp.zeros((x, *a.shape[axes:]), a.dtype), sent.aside)
    return Total(update, jnp.zeros(x), aside, jnp.zeros(x))


def _ended(
    plan: Plan, algorithm: Method, work: Work, sent: Sent, kept: PyTree, n: Array, lr: Array
) -> tuple[Array, Reply, PyTree]:
    """The weight of a lane's reply, where it depends on nothing else; the reply; and what its client keeps."""
    reply, keeps = algorithm.local.finish(work, sent, kept, n, lr)
    if plan.stacked or not isinstance(algorithm, Algorithm):
        return jnp.float32(0), reply, keeps
    alone = Replies(reply.examples[None], jnp.ones(1, bool), {})
    return algorithm.weighting.weigh(alone)[0], reply, keeps


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
            return local.step(task, work, examples, share, turn, lr, jax.random.fold_in(key, begun + step))

        if plan.segment is None:
            return lax.fori_loop(0, steps, lambda i, work: advance(i, work, *batch(i)), work)

        def body(work: Work, coming: tuple[Any, ...]) -> tuple[Work, None]:
            step, *rest = coming
            ahead = advance(step, work, *rest)
            return ahead if local.still(work) else where(step < steps, ahead, work), None

        coming = done + jnp.arange(plan.segment)
        return lax.scan(body, work, (coming, *jax.vmap(batch)(coming)), unroll=1 if plan.members > 1 else UNROLL)[0]

    return segment
