"""Readings: measures of clients' models on clients' own data, which weightings look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import lax

from fedloom.combine.replies import Reading
from fedloom.engines.plan import Plan
from fedloom.engines.store import View
from fedloom.engines.users import totals
from fedloom.tasks.task import Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int


def readings(
    task: Task,
    plan: Plan,
    needs: Sequence[Reading],
    views: dict[str, View],
    sent: Variables,
    updates: Variables,
    cohort: Int[Array, "X m"],
) -> dict[str, Float[Array, "X m"]]:
    """Each reading of each client of each experiment's cohort.

    Arguments:
        needs: what is read.
        views: the examples of each part that is read.
        sent: the model that all were sent, one an experiment.
        updates: what they changed, (experiments, clients).
        cohort: which clients; -1 is nobody.
    """
    found: dict[str, Array] = {}
    for part, moment in dict.fromkeys((need.part, need.moment) for need in needs):
        view = views[part]
        clients = jnp.maximum(cohort, 0)
        starts, sizes = view.start[clients], jnp.where(cohort >= 0, view.size[clients], 0)

        def before(sent: Variables, _: Variables, start: Array, n: Array, view: View = view) -> dict[str, Array]:
            return lax.map(lambda a: judged(task, view, sent, *a), (start, n), batch_size=plan.at_once)

        def after(sent: Variables, own: Variables, start: Array, n: Array, view: View = view) -> dict[str, Array]:
            def one(given: tuple[Variables, Array, Array]) -> dict[str, Array]:
                return judged(task, view, jax.tree.map(jnp.add, sent, given[0]), *given[1:])

            return lax.map(one, (own, start, n), batch_size=plan.at_once)

        values = jax.vmap(before if moment == "before" else after)(sent, updates, starts, sizes)
        found |= {need.name: values[need.metric] for need in needs if (need.part, need.moment) == (part, moment)}
    return found


def judged(task: Task, view: View, variables: Variables, start: Int[Array, ""], n: Int[Array, ""]) -> dict[str, Array]:
    """Metric → its mean over a client's n examples, which begin at some place of the index."""
    sums = totals(task, view, variables, start, n)
    return {name: value / sums["count"] for name, value in sums.items() if name != "count"}
