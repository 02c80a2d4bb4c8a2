"""Rank: some of the workers, each trained, mixed and judged on its own by the code that the simulation compiles.

A model is one flat array here, (parameters,), as it travels. Random numbers come from the numbers of users, so every
worker computes what it computes in :class:`fedloom.engines.compiled.Compiled`, whatever rank it is on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

import fedloom.engines.devices as machine
from fedloom.algorithms.method import Method, RoundState
from fedloom.data.federated import FederatedData
from fedloom.engines.lanes import Cohort, work_through
from fedloom.engines.plan import Plan, plan
from fedloom.engines.schedule import INIT, stream
from fedloom.engines.store import Store, View
from fedloom.engines.store import store as stored
from fedloom.engines.users import totals
from fedloom.local import Sent
from fedloom.mixing.mixer import blended
from fedloom.round.close import step
from fedloom.tasks.task import Task, Variables
from fedloom.trees import member, stack

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, Key, UInt32

    Flat = Float[Array | np.ndarray, " P"]


@dataclass(frozen=True)
class Rank:
    """A rank's part of the work; build it with :func:`rank`.

    Arguments:
        task, algorithm, plan, store: what is learned, how, and from which examples, of which only those are on the
            device that are asked for.
        seed: of everything random.
    """

    task: Task
    algorithm: Method
    plan: Plan
    store: Store
    seed: int
    views: dict[str, tuple[tuple[int, ...], View]] = field(default_factory=dict)

    @cached_property
    def first(self) -> Variables:
        """The model before the first round."""
        made: Variables = jax.jit(lambda seed: initial(self.task, stream(seed, INIT)))(np.uint32(self.seed))
        return made

    @cached_property
    def stacked(self) -> Method:
        """The algorithm, as that of one experiment among several."""
        one: Method = machine.place(stack([self.algorithm]), self.plan.mesh)
        return one

    def flat(self, variables: Variables) -> np.ndarray:
        """A model as it travels."""
        return np.asarray(ravel_pytree(variables)[0])

    def whole(self, flat: Flat) -> Variables:
        """A model that has travelled."""
        variables: Variables = ravel_pytree(self.first)[1](jnp.asarray(flat))
        return variables

    def view(self, users: Sequence[int], part: str = "train") -> View:
        """The examples of a part of these users, on the device; they stay there until others are asked for."""
        kept = self.views.get(part)
        if kept is None or kept[0] != tuple(users):
            kept = self.views[part] = tuple(users), self.store.view(np.array(users, np.int32), part)
        return kept[1]

    def train(self, view: View, user: int, model: Flat, round: int) -> tuple[np.ndarray, float]:
        """A model after a user's work in a round, or, where there is a server, what it replies; and ‖update‖²."""
        numbers = np.array([self.seed], np.uint32), np.int32(round), np.int32(user)
        reply, square = _train(self.task, self.plan, self.stacked, view, model, *numbers)
        return np.asarray(reply), float(square)

    def mix(self, models: Sequence[Flat], shares: Float[np.ndarray, " p"]) -> np.ndarray:
        """Σ share · model."""
        return np.asarray(_mix(tuple(models), shares))

    def judge(self, view: View, user: int, model: Flat) -> dict[str, float]:
        """Metric (and ``count``) → its sum over a user's examples, of a model."""
        found = _judge(self.task, view, model, np.int32(user))
        return {name: float(value) for name, value in found.items()}

    def step(self, state: RoundState, total: Flat, weight: float) -> tuple[RoundState, float]:
        """The server's step with Σ weight · update and Σ weight; and ‖mean update‖."""
        users = len(self.store.data)
        ahead, norm = _step(self.task, self.algorithm, state, total, np.float32(weight), users)
        return ahead, float(norm)


def rank(data: FederatedData, task: Task, algorithm: Method, seed: int) -> Rank:
    """A rank's part of the work, on one device."""
    machine.devices()
    sizes = data.clients["train"].size
    layout = plan(task, algorithm, sizes, data.columns, members=1, lanes=None, devices=1, whole=False)
    return Rank(task, algorithm, layout, stored(data, layout.mesh, stream=True), seed)


@partial(jax.jit, static_argnames=("task", "plan"))
def _train(
    task: Task,
    plan: Plan,
    algorithm: Method,
    view: View,
    model: Flat,
    seeds: UInt32[Array, " 1"],
    round: Int[Array, ""],
    user: Int[Array, ""],
) -> tuple[Array, Array]:
    """One worker's round."""
    variables = _shaped(task, model)
    lead = (1, 1) if plan.apart else (1,)
    sent = Sent(jax.tree.map(lambda a: a.reshape(*lead, *a.shape), variables), {})
    which = jnp.zeros((1, 1), jnp.int32) if plan.apart else None
    did, _ = work_through(Cohort(task, plan, algorithm, view, sent, seeds, round[None], user[None, None], which))
    update = member(member(did.update, 0), 0) if plan.stacked else member(did.update, 0)
    reply = jax.tree.map(jnp.add, variables, update) if plan.apart else update
    return ravel_pytree(reply)[0], optax.tree.norm(update.params, squared=True)


@jax.jit
def _mix(models: tuple[Array, ...], shares: Float[Array, " p"]) -> Array:
    return blended(jnp.stack(models), jnp.arange(len(models))[None], shares[None])[0]


@partial(jax.jit, static_argnames="task")
def _judge(task: Task, view: View, model: Array, user: Int[Array, ""]) -> dict[str, Array]:
    return totals(task, view, _shaped(task, model), view.start[user], view.size[user])


@partial(jax.jit, static_argnames=("task", "users"))
def _step(
    task: Task, algorithm: Method, state: RoundState, total: Array, weight: Array, users: int
) -> tuple[RoundState, Array]:
    mean = _shaped(task, total / jnp.where(weight > 0, weight, 1))
    output = state.variables, state.optimizer, state.broadcast
    variables, optimizer, broadcast = step(algorithm.server, output, mean, {}, users, weight > 0)
    ahead = replace(state, variables=variables, optimizer=optimizer, broadcast=broadcast, round=state.round + 1)
    return ahead, optax.tree.norm(mean.params)


def initial(task: Task, key: Key[Array, ""]) -> Variables:
    """A model in JAX's own precision: float32, or float64 where that is on."""
    exact = lambda a: a.astype(float) if jnp.issubdtype(a.dtype, jnp.floating) else a  # noqa: E731
    return jax.tree.map(exact, task.init(key))


def _shaped(task: Task, model: Flat) -> Variables:
    """A flat model in the task's shapes."""
    variables: Variables = ravel_pytree(initial(task, jax.random.key(0)))[1](jnp.asarray(model))
    return variables
