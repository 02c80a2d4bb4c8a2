"""Peers: whole rounds in which every user has a model of its own, compiled into one XLA program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

import fedloom.engines.devices as machine
from fedloom.algorithms.personalised import PeerState, Personalised
from fedloom.combine.replies import Replies
from fedloom.engines.axes import over
from fedloom.engines.clock import Clock, Passed
from fedloom.engines.deferred import Columns, Deferred, merge
from fedloom.engines.lanes import Cohort, Total, work_through
from fedloom.engines.pairs import Everyone, among, everyone, pairs
from fedloom.engines.plan import Plan
from fedloom.engines.predictions import PREDICTIONS, predicted
from fedloom.engines.program import Program, Rounds, in_turn, named, observed, sometimes
from fedloom.engines.schedule import PEERS, deal, stream
from fedloom.engines.store import View
from fedloom.engines.users import each
from fedloom.local import Sent
from fedloom.measures import MEAN
from fedloom.mixing import Neighbours
from fedloom.tasks.task import Task, Variables
from fedloom.trees import member as member_of
from fedloom.trees import nbytes

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, UInt32

SHOWN = 64  # users up to which the mixing matrix is shown, and kept of every round that is evaluated


@dataclass(frozen=True)
class Peers(Program):
    """A program whose state is all users' models; made by :meth:`Compiled.program`."""

    algorithm: Personalised  # type: ignore[assignment]

    @property
    def moved(self) -> int:
        """How many models users send each other, or the server, in a round."""
        return self.m if self.algorithm.has_server else self.algorithm.mixer.moved(self.m)

    def sent(self, first: int, rounds: int, member: int) -> int:
        """How many models users send each other, or the server, in the rounds from the first on."""
        if self.algorithm.has_server:
            return super().sent(first, rounds, member)
        mixer = member_of(self.algorithm, member).mixer
        key = lambda round: lambda: stream(int(self.seeds[member]), PEERS, round)  # noqa: E731
        return sum(mixer.sent(self.m, round, key(round)) for round in range(first, first + rounds))

    @property
    def down(self) -> int:
        """What users send each other is counted once, as sent up."""
        return int(self.algorithm.has_server)

    def model_bytes(self, state: PeerState) -> int:  # type: ignore[override]
        """The bytes of one user's model."""
        return nbytes(state.variables) // (len(self.seeds) * len(self.data))

    def answers(self, clock: Clock, asked: np.ndarray, round: int, member: int) -> np.ndarray:
        """Who is there: peers wait for each other, however long it takes."""
        if self.algorithm.has_server:
            return super().answers(clock, asked, round, member)
        return clock.machines(len(self.data), round).there[asked]

    def heard(self, round: int, member: int, asked: np.ndarray, there: np.ndarray) -> np.ndarray:
        """Whose model each waits for in a round, its own left out: [user, other]. Who picks others anew picks them of
        those who are there; along a topology one also waits for who is lost.
        """
        users = len(self.data)
        mixer, wanted = member_of(self.algorithm, member).mixer, np.isin(np.arange(users), asked)
        told = Replies(jnp.ones(users), jnp.asarray(wanted & there), {}, round=jnp.int32(round))
        own = not (isinstance(mixer, Neighbours) and mixer.by == "nearest")  # who is near, only all models tell
        key = stream(int(self.seeds[member]), PEERS, round)
        who = mixer.pick(key, told, self.m, Variables({}, {})) if own else None
        found = np.full((users, users), who is None and self.moved > 0)
        if who is not None:
            found[np.arange(users)[:, None], np.asarray(who)] = True
        np.fill_diagonal(found, False)
        return found & wanted & wanted[:, None]

    def passed(self, before: Passed, first: int, rounds: int, member: int) -> Passed:
        """What has passed by the clock after some more rounds of an experiment."""
        assert self.clock is not None
        if self.algorithm.has_server:
            return super().passed(before, first, rounds, member)
        ready, up, down = before.ready, before.up.copy(), before.down.copy()
        users, size = len(self.data), self.message.up
        for round, asked in enumerate(self.asked(first, rounds)[:, member], first):
            steps, there = np.zeros(users, int), self.clock.machines(users, round).there
            steps[asked] = self.steps_of(asked, member)
            heard = self.heard(round, member, asked, there)
            passes = heard & there & there[:, None]
            up, down = up + size * passes.sum(0), down + size * passes.sum(1)
            ready = self.clock.exchanged(ready, steps, heard, size, round)
        return Passed(float(ready.max()), ready, up, down)

    def measures(self, state: PeerState, splits: Sequence[str]) -> Deferred[Columns]:  # type: ignore[override]
        """``consensus``, the root mean square distance of users' parameters from their mean; and, where they are to
        agree on one model, how their mean does: ``mean_test_accuracy`` and so on.
        """
        found = Deferred({"consensus": _consensus(state.variables)}, dict)
        if not self.algorithm.agrees or self.task.client is not None:
            return found
        mean = _mean(state.variables)
        return merge([found, *(self.judge.means(mean, split).then(partial(named, MEAN, split)) for split in splits)])

    def advance(self, state: PeerState, first: int, rounds: int) -> tuple[PeerState, Rounds]:  # type: ignore[override]
        """The state some rounds later, and what those rounds did."""
        chosen = self.cohorts(first, rounds)
        dealt = deal(chosen, self.steps(chosen), self.plan.mesh.size)
        parts = sorted({need.part for need in self.algorithm.readings})
        few = isinstance(self.algorithm.mixer, Neighbours)
        examples = {part: self.store.view(dealt, part) if few else self.everyone(part) for part in parts}
        view, test = self.store.view(dealt), self.seen_on(dealt)
        given = view, test, examples, state, self.seeds, dealt
        state, did = _advance(self.task, self.plan, self.m, self.algorithm, *given)
        return state, replace(did, cohort=chosen)

    def everyone(self, part: str) -> Everyone:
        """All users' examples of a part, on the devices."""
        assert self.store.resident is not None
        name = f"everyone's {part}"
        if name not in self.store.placed:
            self.store.placed[name] = machine.place(Everyone({}, *everyone(self.data, part)), self.plan.mesh)
        kept: Everyone = self.store.placed[name]
        return Everyone(self.store.resident.columns, kept.rows, kept.owner)


@dataclass(frozen=True, eq=False)
class Round:
    """One round of all experiments, as functions of what is on the devices.

    Arguments:
        task, plan: what is learned, and how it is laid out.
        m: how many users take part.
        algorithm, view, test, examples, seeds: what :func:`_advance` was given.
    """

    task: Task
    plan: Plan
    m: int
    algorithm: Personalised
    view: View
    test: dict[str, View]
    examples: dict[str, Everyone | View]
    seeds: Array

    def __call__(self, state: PeerState, coming: tuple[Array, Array]) -> tuple[PeerState, Rounds]:
        """The state after it, and what it did: each device trains its part of the users, all learn what they made,
        and mix.
        """
        return self.after(state, coming[1], *self.trained(state, coming[0][:, 0]))

    def after(
        self, state: PeerState, last: Array, update: Variables, present: Array, computed: Array
    ) -> tuple[PeerState, Rounds]:
        """The state after users' work, which has given these updates, and what the round did."""
        users = len(self.view.size)
        after = replace(state, variables=jax.tree.map(jnp.add, state.variables, update))
        sizes = jnp.broadcast_to(self.view.size.astype(jnp.float32), present.shape)
        told = Replies(sizes, present, {}, round=state.round)
        pick = lambda a, seed, told, x: a.mixer.pick(stream(seed, PEERS, told.round), told, self.m, x)  # noqa: E731
        who = jax.vmap(pick)(self.algorithm, self.seeds, told, after.variables)
        told = replace(told, readings=self.read(state.variables, after.variables, who))
        exchange = lambda a, s, replies, x, w: a.exchanged(s, replies, x, w)  # noqa: E731
        exchange = over(self.plan.members, exchange, [True] * 5)
        ahead = exchange(self.algorithm, state, told, after.variables, who)
        norm = jax.vmap(optax.tree.norm)(update.params) / users**0.5
        seen = sometimes(last, lambda: self.seen(state, after, ahead, told, who)) if self.test else {}
        return ahead, Rounds(norm, computed, seen)

    def trained(self, state: PeerState, mine: Int[Array, "X m"]) -> tuple[Variables, Array, Array]:
        """What all users learned, who took part, and how many steps were computed."""
        sent = outgoing(self.algorithm, state, self.view.size)
        did, _ = work_through(
            Cohort(self.task, self.plan, self.algorithm, self.view, sent, self.seeds, state.round, mine, which=mine)
        )
        found = placed(state, mine, did)
        update, present, computed = lax.psum(found, machine.AXIS) if self.plan.mesh.size > 1 else found
        return update, present > 0, computed

    def read(self, before: Variables, after: Variables, who: Array | None) -> dict[str, Array]:
        """A of every reading, or the part of it that users ask for; what is judged on the same part at the same moment
        is judged once.
        """
        found, needs = {}, self.algorithm.readings
        for part, moment in dict.fromkeys((need.part, need.moment) for need in needs):
            models, given = after if moment == "after" else before, self.examples[part]
            if isinstance(given, Everyone):
                found[part, moment] = pairs(self.task, self.plan, given, models, len(self.view.size))
            elif who is not None:
                found[part, moment] = among(self.task, self.plan, given, models, who)
        return {need.name: found[need.part, need.moment][need.metric] for need in needs}

    def seen(
        self, before: PeerState, after: PeerState, ahead: PeerState, told: Replies, who: Array | None
    ) -> dict[str, Array]:
        """Who took part, how each did on test data before and after its work, and how they mixed."""
        users = len(self.view.size)

        def measure(view: View, moment: str) -> dict[str, Any]:
            given = self.task, self.plan, self.algorithm, view, before if moment == "before" else after
            sums = each(*given)
            means: dict[str, Any] = {name: value / sums["count"] for name, value in sums.items() if name != "count"}
            return {**means, PREDICTIONS: each(*given, judge=predicted)} if self.task.overall else means

        found = observed(self.test, jnp.where(told.present, jnp.arange(users), -1), measure)
        if users <= SHOWN:
            found["mixing"] = jax.vmap(lambda a, replies, w: a.mixer.matrix(replies, w))(self.algorithm, told, who)
            found |= jax.vmap(lambda a, s: a.notes(s))(self.algorithm, ahead)
        return found


def outgoing(algorithm: Personalised, state: PeerState, sizes: Array | np.ndarray) -> Sent:
    """What users are sent: their own models, and what else the algorithm tells each of them."""
    aside = jax.vmap(lambda a, s: a.told(s, jnp.asarray(sizes)))(algorithm, state)
    return Sent(state.variables, aside)


def placed(state: PeerState, mine: Int[Array, "X m"], did: Total) -> tuple[Variables, Array, Array]:
    """What some users learned, in everybody's places, who they are, and how many steps were computed."""
    users = jax.tree.leaves(state.variables)[0].shape[1]
    at = jnp.where(mine >= 0, mine, users)
    put = jax.vmap(lambda a, new, at: jnp.zeros_like(a).at[at].set(new, mode="drop"))
    update = jax.tree.map(lambda a, u: put(a, u, at), state.variables, did.update)
    present = jax.vmap(lambda at: jnp.zeros(users).at[at].set(1, mode="drop"))(at)
    return update, present, did.computed


@jax.jit
def _mean(variables: Variables) -> Variables:
    """The mean of all users' models, for each experiment."""
    mean: Variables = jax.tree.map(lambda a: a.mean(1), variables)
    return mean


@jax.jit
def _consensus(variables: Variables) -> Float[Array, " X"]:
    """√(mean over k of ‖x_k - mean x‖²), for each experiment."""
    squares = [jnp.sum((a - a.mean(1, keepdims=True)) ** 2, axis=tuple(range(2, a.ndim))).mean(1)
               for a in jax.tree.leaves(variables.params)]  # fmt: skip
    return jnp.sqrt(jnp.sum(jnp.stack(squares), axis=0))


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
    """Rounds in one program."""
    given = (algorithm, view, test, examples, seeds)
    return in_turn(plan, partial(Round, task, plan, m), given, state, schedule)
