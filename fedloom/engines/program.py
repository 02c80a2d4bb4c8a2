"""Program: whole rounds of one or several experiments, compiled into one XLA program."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import PartitionSpec as P

import fedloom.engines.devices as machine
from fedloom.algorithms.algorithm import Algorithm, ServerState
from fedloom.combine.replies import Replies
from fedloom.data.federated import FederatedData
from fedloom.engines.evaluate import Judge
from fedloom.engines.lanes import Total, work_through
from fedloom.engines.plan import Plan
from fedloom.engines.readings import readings
from fedloom.engines.schedule import INIT, cohorts, deal, stream
from fedloom.engines.store import Store, View
from fedloom.tasks.task import Task, Variables
from fedloom.trees import nbytes, record, where

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, UInt32


SCHEDULE = P(None, None, machine.AXIS)  # of a schedule (rounds, experiments, devices, clients) a device has its part


@record
class Rounds:
    """What some rounds did, one row a round, one column an experiment: the norm of the mean update (where every user
    has its own model, the root mean square of all users' updates), and how many steps were computed for it.
    """

    norm: Float[Array, "rounds members"]
    computed: Float[Array, "rounds members"]


@dataclass(frozen=True)
class Program:
    """One or several experiments on the same data and task, ready to run; made by :meth:`Compiled.program`."""

    task: Task
    algorithm: Algorithm
    data: FederatedData
    plan: Plan
    store: Store
    judge: Judge
    seeds: np.ndarray
    m: int

    def init(self) -> ServerState:
        """Every experiment's state before its first round."""
        make = jax.jit(jax.vmap(lambda a, seed: a.init(self.task.init(stream(seed, INIT)))))
        states: ServerState = machine.place(make(self.algorithm, self.seeds), self.plan.mesh)
        return states

    @property
    def moved(self) -> int:
        """How many models are sent in a round, each way; none where one has all the data and needs no server."""
        return self.m if len(self.data) > 1 else 0

    def model_bytes(self, state: ServerState) -> int:
        """The bytes of one model."""
        return nbytes(state.variables) // len(self.seeds)

    def place(self, state: ServerState) -> ServerState:
        """A state that was saved, back on the devices."""
        placed: ServerState = machine.place(state, self.plan.mesh)
        return placed

    def cohorts(self, first: int, rounds: int) -> np.ndarray:
        """Who takes part in the rounds from the first on: (rounds, experiments, m)."""
        numbers = first + np.arange(rounds, dtype=np.int32)
        return np.asarray(cohorts(self.seeds, numbers, np.int32(len(self.data)), m=self.m))

    def steps(self, cohort: np.ndarray) -> np.ndarray:
        """How many steps each of a cohort takes."""
        epochs = np.asarray(self.algorithm.local.epochs)[:, None]
        return epochs * -(-self.data.clients["train"].size[cohort] // self.plan.rows)

    def advance(self, state: ServerState, first: int, rounds: int) -> tuple[ServerState, Rounds]:
        """The state some rounds later, and what those rounds did."""
        parts = []
        chosen = self.cohorts(first, rounds)
        while len(chosen):
            now = self.store.fitting(chosen)
            dealt = deal(chosen[:now], self.steps(chosen[:now]), self.plan.mesh.size)
            view = self.store.view(dealt)
            parts_read = {need.part for need in self.algorithm.readings}
            judged = {part: self.store.view(dealt, part) for part in sorted(parts_read)}
            state, did = _advance(self.task, self.plan, self.algorithm, view, judged, state, self.seeds, dealt)
            parts.append(did)
            chosen = chosen[now:]
        return state, jax.tree.map(lambda *a: np.concatenate([np.asarray(b) for b in a]), *parts)

    def evaluate(self, state: ServerState, split: str) -> dict[str, np.ndarray]:
        """Every metric of every experiment's shared model on a part of the data."""
        return self.judge.evaluate(state.variables, split)


@partial(jax.jit, static_argnames=("task", "plan"))
def _advance(
    task: Task,
    plan: Plan,
    algorithm: Algorithm,
    view: View,
    judged: dict[str, View],
    state: ServerState,
    seeds: UInt32[Array, " X"],
    schedule: Int[Array, "rounds X devices m"],
) -> tuple[ServerState, Rounds]:
    """Rounds in one program. Each device works through its part of every cohort; then they add up what they have."""

    def rounds(
        algorithm: Algorithm, view: View, judged: dict[str, View], state: ServerState, seeds: Array, schedule: Array
    ) -> tuple[ServerState, Rounds]:
        def one(state: ServerState, cohort: Array) -> tuple[ServerState, Rounds]:
            mine = work_through(task, plan, algorithm, view, state.variables, seeds, state.round, cohort[:, 0])
            if plan.stacked:
                mine = weighed(task, plan, algorithm, view, judged, state.variables, mine, cohort[:, 0])
            total: Total = lax.psum(mine, machine.AXIS) if plan.mesh.size > 1 else mine
            mean = jax.tree.map(lambda a: jax.vmap(jnp.divide)(a, total.weight), total.update)
            norm = jax.vmap(optax.tree.norm)(mean.params)
            return jax.vmap(lambda a, s, u: a.apply(s, u))(algorithm, state, mean), Rounds(norm, total.computed)

        return lax.scan(one, state, schedule)

    done: tuple[ServerState, Rounds] = machine.on_each(plan.mesh, rounds, P(), P(), P(), P(), P(), SCHEDULE)(
        algorithm, view, judged, state, seeds, schedule
    )
    return done


def weighed(
    task: Task,
    plan: Plan,
    algorithm: Algorithm,
    view: View,
    judged: dict[str, View],
    sent: Variables,
    kept: Total,
    cohort: Int[Array, "X m"],
) -> Total:
    """The sum of replies that were kept, each weighted, knowing what all devices' clients read."""
    needs = algorithm.readings
    mine = Replies(
        jnp.where(cohort >= 0, view.size[cohort], 0).astype(jnp.float32),
        cohort >= 0,
        readings(task, plan, needs, judged, sent, kept.update, cohort),
    )
    several = plan.mesh.size > 1
    every = lax.all_gather(mine, machine.AXIS, axis=1, tiled=True) if several else mine
    weights = jax.vmap(lambda a, replies: a.weighting.weigh(replies))(algorithm, every)
    weights = jnp.where(every.present, weights, 0)
    if several:
        weights = lax.dynamic_slice_in_dim(weights, lax.axis_index(machine.AXIS) * cohort.shape[1], cohort.shape[1], 1)
    counted = where(weights > 0, kept.update, jax.tree.map(jnp.zeros_like, kept.update))  # 0 · NaN is not 0
    update = jax.tree.map(lambda u: jnp.einsum("xm,xm...->x...", weights, u), counted)
    return Total(update, weights.sum(1), kept.computed)
