"""Clusters: whole rounds of clustered federation, compiled into one XLA program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import PartitionSpec as P

import fedloom.engines.devices as machine
from fedloom.algorithms.clustered import Clustered, ClusterState
from fedloom.combine.replies import Replies
from fedloom.engines.lanes import Cohort, Total, work_through
from fedloom.engines.plan import Plan
from fedloom.engines.program import Program, Rounds, in_turn, observed, sometimes, together
from fedloom.engines.readings import seen
from fedloom.engines.schedule import INIT, deal, stream
from fedloom.engines.store import View
from fedloom.engines.users import totals
from fedloom.tasks.task import Task, Variables
from fedloom.trees import nbytes

if TYPE_CHECKING:
    from jaxtyping import Array, Int, PyTree, UInt32


@dataclass(frozen=True)
class Clusters(Program):
    """A program whose state is a few clusters' models; made by :meth:`Compiled.program`."""

    algorithm: Clustered  # type: ignore[assignment]

    @property
    def down(self) -> int:
        """A client is sent every cluster's model."""
        return self.algorithm.clusters

    def model_bytes(self, state: ClusterState) -> int:  # type: ignore[override]
        """The bytes of one cluster's model."""
        return nbytes(state.variables) // (len(self.seeds) * self.algorithm.clusters)

    def begun(self, algorithm: Clustered, seeds: Array | np.ndarray) -> ClusterState:  # type: ignore[override]
        """Every experiment's state before its first round, not on its devices yet."""
        states: ClusterState = _begun(self.task, len(self.data), algorithm, seeds)
        return states

    def advance(self, state: ClusterState, first: int, rounds: int) -> tuple[ClusterState, Rounds]:  # type: ignore[override]
        """The state some rounds later, and what those rounds did."""
        chosen = self.cohorts(first, rounds)
        dealt = deal(chosen, self.steps(chosen), self.plan.mesh.size)
        view, test = self.store.view(dealt), self.seen_on(dealt)
        state, did = _advance(self.task, self.plan, self.algorithm, view, test, state, self.seeds, dealt)
        return state, replace(did, cohort=chosen)

    def users(self, state: ClusterState, split: str) -> dict[str, np.ndarray]:  # type: ignore[override]
        """Metric (and ``count``) → its sum over each client's examples of a part, of the model that it chooses now."""
        return super().users(self.choosing(state), split)  # type: ignore[arg-type]

    def predictions(self, state: ClusterState, part: str) -> PyTree:  # type: ignore[override]
        """Return the outputs for each client's examples of a part, of the model that it chooses now."""
        return super().predictions(self.choosing(state), part)  # type: ignore[arg-type]

    def choosing(self, state: ClusterState) -> ClusterState:
        """Return the state in which each client has chosen the model with the lowest loss on its training examples."""
        view = self.store.view(np.arange(len(self.data)))
        return replace(state, choice=_choices(self.task, self.plan, view, state.variables))


def nearest(task: Task, plan: Plan, view: View, models: Variables, clients: Int[Array, " n"]) -> Int[Array, " n"]:
    """Which of some models has the lowest loss on each client's training data."""

    def one(client: Array) -> Array:
        found = lax.map(lambda model: totals(task, view, model, view.start[client], view.size[client]), models)
        return jnp.argmin(jnp.where(jnp.isfinite(found["loss"]), found["loss"], jnp.inf))

    return lax.map(one, jnp.maximum(clients, 0), batch_size=plan.at_once)


@partial(jax.jit, static_argnames=("task", "plan"))
def _choices(task: Task, plan: Plan, view: View, models: Variables) -> Int[Array, "X K"]:
    """What every client chooses; a device asks its share of them."""

    def all_of(view: View, models: Variables) -> Array:
        of = lambda which: jax.vmap(lambda own: nearest(task, plan, view, own, which))(models)  # noqa: E731
        found: Array = machine.shared_out(plan.mesh, len(view.size), of)
        return found

    done: Array = machine.on_each(plan.mesh, all_of, P(), P())(view, models)
    return done


@dataclass(frozen=True, eq=False)
class Round:
    """One round of all experiments, as functions of what is on the devices; the arguments are those of
    :func:`_advance`.
    """

    task: Task
    plan: Plan
    algorithm: Clustered
    view: View
    test: dict[str, View]
    seeds: Array

    def __call__(self, state: ClusterState, coming: tuple[Array, Array]) -> tuple[ClusterState, Rounds]:
        """The state after it, and what it did: each device's clients choose and work, then all add up what they have,
        by cluster.
        """
        plan, (cohort, last) = self.plan, (coming[0][:, 0], coming[1])
        choose = lambda models, clients: nearest(self.task, plan, self.view, models, clients)  # noqa: E731
        choice = jax.vmap(choose)(state.variables, cohort)
        sent, round = state.sent, state.round
        did, _ = work_through(
            Cohort(self.task, plan, self.algorithm, self.view, sent, self.seeds, round, cohort, which=choice)
        )
        mean, computed = self.averaged(did, cohort, choice)
        everybody, chose = together(plan, (cohort, choice))
        put = lambda old, who, new: old.at[jnp.where(who >= 0, who, len(old))].set(new, mode="drop")  # noqa: E731
        models = jax.tree.map(jnp.add, state.variables, mean)
        ahead = ClusterState(models, jax.vmap(put)(state.choice, everybody, chose), state.round + 1)
        own = jax.tree.map(lambda a: jax.vmap(lambda a, c: a[c])(a, choice), state.variables)
        measure = partial(self.measured, own, did.update, cohort)
        notes = together(plan, sometimes(last, lambda: observed(self.test, cohort, measure))) if self.test else {}
        return ahead, Rounds(jax.vmap(optax.tree.norm)(mean.params), computed, notes)

    def averaged(self, did: Total, cohort: Int[Array, "X m"], choice: Int[Array, "X m"]) -> tuple[Variables, Array]:
        """The mean update of each cluster, nothing where nobody chose it; and how many steps were computed."""
        sizes = jnp.where(cohort >= 0, self.view.size[cohort], 0).astype(jnp.float32)
        weigh = lambda a, told: a.weighting.weigh(told)  # noqa: E731
        weights = jnp.where(cohort >= 0, jax.vmap(weigh)(self.algorithm, Replies(sizes, cohort >= 0, {})), 0)
        shares = weights[..., None] * (choice[..., None] == jnp.arange(self.algorithm.clusters))
        sums = jax.tree.map(lambda u: jnp.einsum("xmc,xm...->xc...", shares, u), did.update)
        found = (sums, shares.sum(1), did.computed)
        sums, total, computed = lax.psum(found, machine.AXIS) if self.plan.mesh.size > 1 else found
        somebody = jnp.where(total > 0, total, 1)
        return jax.tree.map(lambda a: jax.vmap(jax.vmap(jnp.divide))(a, somebody), sums), computed

    def measured(
        self, own: Variables, update: Variables, cohort: Int[Array, "X m"], view: View, moment: str
    ) -> dict[str, Array]:
        """Metric → its mean over each client's examples, of the model that it chose, before or after its work."""
        clients = jnp.maximum(cohort, 0)
        models = own if moment == "before" else jax.tree.map(jnp.add, own, update)
        given = (models, view.start[clients], jnp.where(cohort >= 0, view.size[clients], 0))
        of = lambda one: seen(self.task, view, *one)  # noqa: E731
        found: dict[str, Array] = jax.vmap(lambda *a: lax.map(of, a, batch_size=self.plan.at_once))(*given)
        return found


@partial(jax.jit, static_argnames=("task", "clients"))
def _begun(task: Task, clients: int, algorithm: Clustered, seeds: UInt32[Array, " X"]) -> ClusterState:
    """Every experiment's state before its first round: every cluster begins with weights of its own."""

    def one(algorithm: Clustered, seed: Array) -> ClusterState:
        models = jax.vmap(lambda c: task.init(stream(seed, INIT, c)))(jnp.arange(algorithm.clusters))
        return algorithm.init(models, clients)

    states: ClusterState = jax.vmap(one)(algorithm, seeds)
    return states


@partial(jax.jit, static_argnames=("task", "plan"))
def _advance(
    task: Task,
    plan: Plan,
    algorithm: Clustered,
    view: View,
    test: dict[str, View],
    state: ClusterState,
    seeds: UInt32[Array, " X"],
    schedule: Int[Array, "rounds X devices m"],
) -> tuple[ClusterState, Rounds]:
    """Rounds in one program."""
    return in_turn(plan, partial(Round, task, plan), (algorithm, view, test, seeds), state, schedule)
