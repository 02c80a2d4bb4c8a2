"""Peers: whole rounds in which every user has a model of its own, compiled into one XLA program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.sharding import PartitionSpec as P

import fedloom.engines.devices as machine
from fedloom.algorithms.personalised import PeerState, Personalised
from fedloom.combine.replies import Reading, Replies
from fedloom.engines.lanes import work_through
from fedloom.engines.pairs import Everyone, among, everyone, pairs
from fedloom.engines.plan import Plan
from fedloom.engines.program import SCHEDULE, SEEN, Program, Rounds, lasts, sometimes
from fedloom.engines.schedule import PEERS, deal, stream
from fedloom.engines.store import View
from fedloom.engines.users import each
from fedloom.local import Sent
from fedloom.mixing import Neighbours
from fedloom.tasks.task import Task, Variables
from fedloom.trees import nbytes

if TYPE_CHECKING:
    from jaxtyping import Array, Int, UInt32

SHOWN = 64  # users up to which the mixing matrix is shown, and kept of every round that is evaluated


@dataclass(frozen=True)
class Peers(Program):
    """A program whose state is all users' models; made by :meth:`Compiled.program`."""

    algorithm: Personalised  # type: ignore[assignment]

    @property
    def moved(self) -> int:
        """How many models users send each other in a round."""
        return self.algorithm.mixer.moved(self.m)

    def model_bytes(self, state: PeerState) -> int:  # type: ignore[override]
        """The bytes of one user's model."""
        return nbytes(state.variables) // (len(self.seeds) * len(self.data))

    def advance(self, state: PeerState, first: int, rounds: int) -> tuple[PeerState, Rounds]:  # type: ignore[override]
        """The state some rounds later, and what those rounds did."""
        chosen = self.cohorts(first, rounds)
        dealt = deal(chosen, self.steps(chosen), self.plan.mesh.size)
        parts = sorted({need.part for need in self.algorithm.readings})
        few = isinstance(self.algorithm.mixer, Neighbours)
        examples = {part: self.store.view(dealt, part) if few else self.everyone(part) for part in parts}
        view, test = self.store.view(dealt), {part: self.store.view(dealt, part) for part in self.tested}
        return _advance(self.task, self.plan, self.m, self.algorithm, view, test, examples, state, self.seeds, dealt)

    def everyone(self, part: str) -> Everyone:
        """All users' examples of a part, on the devices."""
        assert self.store.resident is not None
        name = f"everyone's {part}"
        if name not in self.store.placed:
            self.store.placed[name] = machine.place(Everyone({}, *everyone(self.data, part)), self.plan.mesh)
        kept: Everyone = self.store.placed[name]
        return Everyone(self.store.resident.columns, kept.rows, kept.owner)


@partial(jax.jit, static_argnames=("task", "plan", "m"))
def _advance(
    task: Task,
    plan: Plan,
    m: int,
    algorithm: Personalised,
    view: View,
    test: dict[str, View],
    examples: dict[str, Everyone | View],
    state: PeerState,
    seeds: UInt32[Array, " X"],
    schedule: Int[Array, "rounds X devices m"],
) -> tuple[PeerState, Rounds]:
    """Rounds in one program: each device trains its part of the users, all learn what they made, and mix."""
    users = len(view.size)

    def read(
        needs: Sequence[Reading],
        examples: dict[str, Everyone | View],
        before: Variables,
        after: Variables,
        who: Array | None,
    ) -> dict[str, Array]:
        """A of every reading, or the part of it that users ask for; what is judged on the same part at the same moment
        is judged once.
        """
        found = {}
        for part, moment in dict.fromkeys((need.part, need.moment) for need in needs):
            models, given = after if moment == "after" else before, examples[part]
            if isinstance(given, Everyone):
                found[part, moment] = pairs(task, plan, given, models, users)
            elif who is not None:
                found[part, moment] = among(task, plan, given, models, who)
        return {need.name: found[need.part, need.moment][need.metric] for need in needs}

    def observed(
        test: dict[str, View],
        algorithm: Personalised,
        before: PeerState,
        after: PeerState,
        told: Replies,
        who: Array | None,
    ) -> dict[str, Array]:
        """Who took part, how each did on test data before and after its work, and how they mixed."""
        seen = {"client": jnp.where(told.present, jnp.arange(users), -1)}
        for name, part, moment in SEEN:
            if part in test:
                sums = each(task, plan, algorithm, test[part], before if moment == "before" else after)
                seen |= {f"{name}_{m}": value / sums["count"] for m, value in sums.items() if m != "count"}
        if users <= SHOWN:
            seen["mixing"] = jax.vmap(lambda a, replies, w: a.mixer.matrix(replies, w))(algorithm, told, who)
        return seen

    def rounds(
        algorithm: Personalised,
        view: View,
        test: dict[str, View],
        examples: dict[str, Everyone | View],
        state: PeerState,
        seeds: Array,
        schedule: Array,
    ) -> tuple[PeerState, Rounds]:
        def one(state: PeerState, coming: tuple[Array, Array]) -> tuple[PeerState, Rounds]:
            mine, last = coming[0][:, 0], coming[1]
            aside = jax.vmap(lambda a, s: a.told(s, jnp.asarray(view.size)))(algorithm, state)
            sent = Sent(state.variables, aside)
            did, _ = work_through(task, plan, algorithm, view, sent, seeds, state.round, mine, which=mine)
            at = jnp.where(mine >= 0, mine, users)
            update = jax.tree.map(
                lambda a, u: jax.vmap(lambda a, u, at: jnp.zeros_like(a).at[at].set(u, mode="drop"))(a, u, at),
                state.variables,
                did.update,
            )
            present = jax.vmap(lambda at: jnp.zeros(users).at[at].set(1, mode="drop"))(at)
            computed = did.computed
            if plan.mesh.size > 1:
                update, present, computed = lax.psum((update, present, computed), machine.AXIS)
            trained = jax.tree.map(jnp.add, state.variables, update)
            sizes = jnp.broadcast_to(view.size.astype(jnp.float32), present.shape)
            told = Replies(sizes, present > 0, {}, round=state.round)
            who = jax.vmap(lambda a, seed, told, x: a.mixer.pick(stream(seed, PEERS, told.round), told, m, x))(
                algorithm, seeds, told, trained
            )
            told = replace(told, readings=read(algorithm.readings, examples, state.variables, trained, who))
            ahead = jax.vmap(lambda a, s, replies, x, w: a.exchanged(s, replies, x, w))(
                algorithm, state, told, trained, who
            )
            norm = jax.vmap(optax.tree.norm)(update.params) / users**0.5
            after = replace(state, variables=trained)
            seen = sometimes(last, lambda: observed(test, algorithm, state, after, told, who)) if test else {}
            return ahead, Rounds(norm, computed, seen)

        return lax.scan(one, state, (schedule, lasts(schedule)))

    done: tuple[PeerState, Rounds] = machine.on_each(plan.mesh, rounds, *6 * [P()], SCHEDULE)(
        algorithm, view, test, examples, state, seeds, schedule
    )
    return done
