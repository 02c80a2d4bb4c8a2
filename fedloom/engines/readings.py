"""Readings: measures of clients' models on clients' own data, before and after their work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from fedloom.combine.replies import Reading
from fedloom.engines.plan import Plan
from fedloom.engines.predictions import PREDICTIONS, predicted
from fedloom.engines.store import View
from fedloom.engines.users import totals
from fedloom.local import Local
from fedloom.tasks.task import Task, Variables
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, PyTree


@record
class Worked:
    """A cohort's work, for each experiment.

    Args:
        local: the work.
        models: the model that clients were sent, or all outputs' models.
        before: what each client kept before its work.
        update: the update of each client.
        after: what each client keeps after its work.
        choice: the output that each client trained; ``None`` if there is only one.
    """

    local: Local
    models: Variables
    before: PyTree
    update: Variables
    after: PyTree
    choice: Int[Array, "X m"] | None = None


def readings(
    task: Task,
    plan: Plan,
    needs: Sequence[Reading],
    views: dict[str, View],
    worked: Worked,
    cohort: Int[Array, "X m"],
) -> dict[str, Float[Array, "X m"]]:
    """Each reading of each client of each experiment's cohort.

    Arguments:
        needs: what is read.
        views: the examples of each part that is read.
        worked: their work.
        cohort: which clients; -1 is nobody.
    """
    found: dict[str, Array] = {}
    for part, moment in dict.fromkeys((need.part, need.moment) for need in needs):
        values = measured(task, plan, views[part], worked, cohort, moment)
        found |= {need.name: values[need.metric] for need in needs if (need.part, need.moment) == (part, moment)}
    return found


def measured(
    task: Task,
    plan: Plan,
    view: View,
    worked: Worked,
    cohort: Int[Array, "X m"],
    moment: str,
    judge: Callable[..., dict[str, Any]] | None = None,
) -> dict[str, Float[Array, "X m"]]:
    """Return metric → its mean over each client's examples of a part, of the model that the client uses at that moment;
    or what else a judge like :func:`judged` makes of it.
    """
    judge = judge or judged
    clients = jnp.maximum(cohort, 0)
    starts, sizes = view.start[clients], jnp.where(cohort >= 0, view.size[clients], 0)

    def all_of(worked: Worked, starts: Array, sizes: Array) -> dict[str, Array]:
        def one(given: tuple[PyTree, Variables, PyTree, Array | None, Array, Array]) -> dict[str, Array]:
            before, update, after, choice, start, n = given
            sent = worked.models if choice is None else jax.tree.map(lambda a: a[choice], worked.models)
            if moment == "before":
                model = worked.local.model(sent, before)
            else:
                model = worked.local.model(jax.tree.map(jnp.add, sent, update), after)
            return judge(task, view, model, start, n)

        given = (worked.before, worked.update, worked.after, worked.choice, starts, sizes)
        return lax.map(one, given, batch_size=plan.at_once)

    found: dict[str, Array] = jax.vmap(all_of)(worked, starts, sizes)
    return found


def judged(task: Task, view: View, variables: Variables, start: Int[Array, ""], n: Int[Array, ""]) -> dict[str, Array]:
    """Metric → its mean over a client's n examples, which begin at some place of the index."""
    sums = totals(task, view, variables, start, n)
    return {name: value / sums["count"] for name, value in sums.items() if name != "count"}


def seen(task: Task, view: View, variables: Variables, start: Int[Array, ""], n: Int[Array, ""]) -> dict[str, Any]:
    """Return the same, and the client's predictions if the task has metrics over all of them."""
    found = judged(task, view, variables, start, n)
    return {**found, PREDICTIONS: predicted(task, view, variables, start, n)} if task.overall else found
