"""Users: how every user's own model does on its own data, or on data that is nobody's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

import fedloom.engines.devices as machine
from fedloom.algorithms.method import Method
from fedloom.engines.plan import Plan
from fedloom.engines.store import View
from fedloom.tasks.task import Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

ROWS = 200  # examples that are judged at once, at most


def totals(task: Task, view: View, variables: Variables, start: Int[Array, ""], n: Int[Array, ""]) -> dict[str, Array]:
    """Metric (and ``count``) → its sum over a client's n examples, which begin at some place of the index."""
    rows = min(ROWS, len(view.index))

    def batch(i: Array) -> dict[str, Array]:
        place = i * rows + jnp.arange(rows, dtype=jnp.int32)
        live = place < n
        taken = view.index[start + jnp.where(live, place, 0)]
        values = task.metrics(variables, {name: column[taken] for name, column in view.columns.items()})
        return {name: jnp.sum(value * live) for name, value in values.items()}

    zero = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(batch, jnp.int32(0)))
    return lax.fori_loop(0, -(-n // rows), lambda i, total: jax.tree.map(jnp.add, total, batch(i)), zero)


@partial(jax.jit, static_argnames=("task", "plan", "judge"))
def users(
    task: Task, plan: Plan, algorithm: Method, view: View, state: Any, judge: Callable[..., Any] = totals
) -> dict[str, Float[Array, "X K"]]:
    """Return metric (and ``count``) → its sum over each user's examples, of the model that the user uses; or what else
    a judge like :func:`totals` makes of each user's model and examples.
    """
    shared, work = (P(), P(), P()), partial(each, task, plan, judge=judge)
    done: dict[str, Array] = machine.on_each(plan.mesh, work, *shared)(algorithm, view, state)
    return done


def each(
    task: Task, plan: Plan, algorithm: Method, view: View, state: Any, judge: Callable[..., Any] = totals
) -> dict[str, Float[Array, "X K"]]:
    """The same inside a program; a device does its share of the users."""

    def of(which: Array) -> dict[str, Array]:
        def every(algorithm: Method, state: Any) -> dict[str, Array]:
            def one(user: Array) -> dict[str, Array]:
                model = algorithm.model(state, user)
                found: dict[str, Array] = judge(task, view, model, view.start[user], view.size[user])
                return found

            return lax.map(one, which, batch_size=plan.at_once)

        return jax.vmap(every)(algorithm, state)

    found: dict[str, Array] = machine.shared_out(plan.mesh, len(view.size), of)
    return found
