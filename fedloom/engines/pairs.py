"""Pairs: every user's model on every user's data, A[i, j] the metric of model j on the examples of user i."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import fedloom.engines.devices as machine
from fedloom.data.federated import FederatedData
from fedloom.engines.plan import Plan
from fedloom.engines.store import View
from fedloom.engines.users import totals
from fedloom.tasks.task import Task, Variables
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, PyTree

ROWS = 256  # examples that a model is judged on at once, at most


@record
class Everyone:
    """All users' examples of a part, in batches, and whose each is; the owner of padding is the number of users."""

    columns: PyTree
    rows: Int[Array | np.ndarray, "batches rows"]
    owner: Int[Array | np.ndarray, "batches rows"]


def everyone(data: FederatedData, part: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows and owners of :class:`Everyone`."""
    ranges = data.clients[part]
    rows, owner = ranges.rows(data.index), ranges.owner
    width = min(ROWS, len(rows))
    room = -(-len(rows) // width) * width - len(rows)
    rows = np.concatenate([rows, np.zeros(room, rows.dtype)]).astype(np.int32)
    owner = np.concatenate([owner, np.full(room, len(data), owner.dtype)]).astype(np.int32)
    return rows.reshape(-1, width), owner.reshape(-1, width)


def pairs(
    task: Task, plan: Plan, examples: Everyone, models: Variables, users: int
) -> dict[str, Float[Array, "X K K"]]:
    """Metric → A of each experiment. A model is judged on everybody's examples in one go, and what it got is added up
    by owner; each device judges its share of the models.
    """

    def judged(model: Variables) -> dict[str, Array]:
        def add(sums: dict[str, Array], batch: tuple[Array, Array]) -> tuple[dict[str, Array], None]:
            rows, owner = batch
            values = task.metrics(model, {name: column[rows] for name, column in examples.columns.items()})
            return {name: sums[name].at[owner].add(value, mode="drop") for name, value in values.items()}, None

        sample = {name: column[examples.rows[0]] for name, column in examples.columns.items()}
        zero = {name: jnp.zeros(users) for name in jax.eval_shape(task.metrics, model, sample)}
        sums = lax.scan(add, zero, (jnp.asarray(examples.rows), jnp.asarray(examples.owner)))[0]
        count = sums.pop("count")
        return {name: value / count for name, value in sums.items()}

    def of(which: Array) -> dict[str, Array]:
        mine = jax.tree.map(lambda a: a[:, which], models)
        return jax.vmap(lambda own: lax.map(judged, own, batch_size=plan.at_once))(mine)

    found: dict[str, Array] = machine.shared_out(plan.mesh, users, of)
    return {name: value.swapaxes(1, 2) for name, value in found.items()}


def among(
    task: Task, plan: Plan, view: View, models: Variables, who: Int[Array, "X K p"]
) -> dict[str, Float[Array, "X K p"]]:
    """Metric → that of the models of a few others on each user's examples; each device asks its share of the users."""

    def of(which: Array) -> dict[str, Array]:
        def every(models: Variables, who: Array) -> dict[str, Array]:
            def one(user: Array) -> dict[str, Array]:
                def of(other: Array) -> dict[str, Array]:
                    model = jax.tree.map(lambda a: a[other], models)
                    return totals(task, view, model, view.start[user], view.size[user])

                sums = lax.map(of, who[user])
                return {name: value / sums["count"] for name, value in sums.items() if name != "count"}

            return lax.map(one, which, batch_size=plan.at_once)

        return jax.vmap(every)(models, who)

    found: dict[str, Array] = machine.shared_out(plan.mesh, who.shape[1], of)
    return found
