"""Program: whole rounds of one or several experiments, compiled into one XLA program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import PartitionSpec as P

import fedloom.engines.devices as machine
from fedloom.algorithms.algorithm import Algorithm, ServerState
from fedloom.combine.combined import heard, summed, weighed
from fedloom.combine.replies import Replies
from fedloom.data.federated import FederatedData
from fedloom.engines.clock import Clock, Message, Passed
from fedloom.engines.coordinates import by_coordinates
from fedloom.engines.evaluate import Judge, measured_models
from fedloom.engines.keeping import enter, returned, taken
from fedloom.engines.lanes import Cohort, Total, work_through
from fedloom.engines.plan import Plan
from fedloom.engines.predictions import labels, over_clients, over_split, predicted, rows_of
from fedloom.engines.readings import Worked, measured, readings, seen
from fedloom.engines.schedule import INIT, cohorts, deal, stream
from fedloom.engines.store import EVERYBODYS, GLOBAL, Store, View
from fedloom.engines.users import users
from fedloom.measures import OWN, SHARED, Measure
from fedloom.tasks.task import Task
from fedloom.trees import nbytes, record

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32


T = TypeVar("T")
MEASUREMENTS = {
    "before": ("test", "before"),
    "after": ("test", "after"),
    "global_before": (GLOBAL, "before"),
    "global": (GLOBAL, "after"),
}
"""Name of a measurement of clients → the test examples that it uses, and whether the model is that before or after the
client's work. ``test`` stands for each client's own test examples, ``GLOBAL`` for everybody's.
"""
SCHEDULE = P(None, None, machine.AXIS)  # of a schedule (rounds, experiments, devices, clients) a device has its part


@record
class Rounds:
    """What some rounds did, one row a round, one column an experiment.

    Arguments:
        norm: of the mean update; where every user has its own model, the root mean square of all users' updates.
        computed: how many steps were computed.
        users: of the last round, where clients are observed: ``client``, who took part (-1 is nobody), each metric of
            each of them under the names of :data:`MEASUREMENTS` (``before_accuracy``, ``global_accuracy``, …), and
            ``mixing``, M, where every user has its own model.
        broken: how many replies did not count, because they were not finite; where there is a combiner that looks.
    """

    norm: Float[Array, "rounds members"]
    computed: Float[Array, "rounds members"]
    users: dict[str, Array]
    broken: Float[Array, "rounds members"] | None = None


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
    clock: Clock | None = None

    def init(self) -> ServerState:
        """Every experiment's state before its first round."""
        states: ServerState = machine.place(self.begun(self.algorithm, self.seeds), self.plan.mesh)
        return states

    def begun(self, algorithm: Algorithm, seeds: Array | np.ndarray) -> ServerState:
        """The same, not on its devices yet."""
        states: ServerState = _begun(self.task, len(self.data), algorithm, seeds)
        return states

    @property
    def moved(self) -> int:
        """How many models are sent in a round, each way; none where one has all the data and needs no server."""
        return self.m if len(self.data) > 1 else 0

    def sent(self, first: int, rounds: int, member: int) -> int:  # noqa: ARG002
        """How many models are sent, each way, in the rounds of an experiment from the first on."""
        return rounds * self.moved

    @property
    def down(self) -> int:
        """How many models a server sends a client for each that it sends back; 0 if there is none."""
        return 1

    def model_bytes(self, state: ServerState) -> int:
        """The bytes that are sent with one model."""
        return (nbytes(state.sent) - nbytes(self.algorithm.local.private_leaves(state.variables))) // len(self.seeds)

    @property
    def measurements(self) -> tuple[str, ...]:
        """The measurements of a round's clients, of :data:`MEASUREMENTS`.

        Clients with test examples are measured on these before and after their work, and on everybody's after it.
        Where all test examples belong to no client, clients are measured on them before and after their work.
        """
        if not self.plan.observed:
            return ()
        own = "test" in self.data.clients and self.data.clients["test"].size.any()
        return ("before", "after", "global") if own else ("global_before", "global")

    def seen_on(self, clients: np.ndarray) -> dict[str, View]:
        """Return measurement → the test examples that it uses, on the devices."""
        parts = {name: MEASUREMENTS[name][0] for name in self.measurements}
        views = {part: self.store.view(clients, part) for part in sorted(set(parts.values()))}
        return {name: views[part] for name, part in parts.items()}

    def judged_on(self, clients: np.ndarray) -> dict[str, View]:
        """Return part → the examples that the weighting reads, and measurement → the test examples that it uses."""
        parts = sorted({need.part for need in self.algorithm.readings})
        return {part: self.store.view(clients, part) for part in parts} | self.seen_on(clients)

    def place(self, state: ServerState) -> ServerState:
        """A state that was saved, back on the devices."""
        placed: ServerState = machine.place(state, self.plan.mesh)
        return placed

    @cached_property
    def message(self) -> Message:
        """The bytes that a client is sent in a round and sends back."""
        if not self.moved:
            return Message(0, 0)
        size = self.model_bytes(jax.eval_shape(self.begun, self.algorithm, self.seeds))
        return Message(self.down * size, size)

    def asked(self, first: int, rounds: int) -> np.ndarray:
        """Who is asked to take part in the rounds from the first on: (rounds, experiments, m)."""
        numbers = first + np.arange(rounds, dtype=np.int32)
        return np.asarray(cohorts(self.seeds, numbers, np.int32(len(self.data)), m=self.m))

    def cohorts(self, first: int, rounds: int) -> np.ndarray:
        """Who takes part: of those that are asked, by the clock, who answers in time; -1 is nobody."""
        asked = self.asked(first, rounds)
        if self.clock is None or (self.clock.deadline is None and not self.clock.lost):
            return asked
        answers = [[self.answers(self.clock, asked[r, x], first + r, x) for x in range(asked.shape[1])]
                   for r in range(rounds)]  # fmt: skip
        return np.where(answers, asked, -1)

    def answers(self, clock: Clock, asked: np.ndarray, round: int, member: int) -> np.ndarray:
        """Which of those that are asked in a round answer in time."""
        return np.isfinite(self.served(clock, asked, round, member)[0])

    def served(self, clock: Clock, asked: np.ndarray, round: int, member: int) -> tuple[np.ndarray, float]:
        """The seconds after which each reply is there, and those after which the round is over."""
        return clock.served(asked, self.steps_of(asked, member), self.message, len(self.data), round)

    def passed(self, before: Passed, first: int, rounds: int, member: int) -> Passed:
        """What has passed by the clock after some more rounds of an experiment."""
        assert self.clock is not None
        now, ready, up, down = before.now, before.ready.copy(), before.up.copy(), before.down.copy()
        for round, asked in enumerate(self.asked(first, rounds)[:, member], first):
            took, over = self.served(self.clock, asked, round, member)
            there = self.clock.machines(len(self.data), round).there[asked]
            ready[asked[there]] = now + np.minimum(took[there], over)
            down[asked] += self.message.down
            up[asked[np.isfinite(took)]] += self.message.up
            now += over
        return Passed(now, ready, up, down)

    def steps(self, cohort: np.ndarray) -> np.ndarray:
        """How many steps each of a cohort (…, experiments, m) is computed in; nobody takes none."""
        return self._counted(cohort, lambda local, n: local.batches.steps(n, self.plan.rows))

    def taken(self, cohort: np.ndarray) -> np.ndarray:
        """How many steps each of a cohort (…, experiments, m) takes, in however many pieces they are computed."""
        return self._counted(cohort, lambda local, n: local.gradient_count(n))

    def _counted(self, cohort: np.ndarray, count: Callable[[Any, np.ndarray], Array]) -> np.ndarray:
        local = jax.tree.map(lambda a: np.asarray(a)[:, None], self.algorithm.local)
        return np.asarray(np.where(cohort >= 0, count(local, self.data.clients["train"].size[cohort]), 0))

    def steps_of(self, clients: np.ndarray, member: int) -> np.ndarray:
        """How many steps each of some clients takes in a round of one experiment."""
        every: np.ndarray = self.taken(np.broadcast_to(clients, (len(self.seeds), len(clients))))[member]
        return every

    def advance(self, state: ServerState, first: int, rounds: int) -> tuple[ServerState, Rounds]:
        """The state some rounds later, and what those rounds did."""
        parts = []
        chosen = self.cohorts(first, rounds)
        if state.kept is not None:
            state = replace(state, kept=machine.place(enter(state.kept, chosen), self.plan.mesh))
        while len(chosen):
            now = self.store.fitting(chosen)
            dealt = deal(chosen[:now], self.steps(chosen[:now]), self.plan.mesh.size)
            view = self.store.view(dealt)
            judged = self.judged_on(dealt)
            state, did = _advance(self.task, self.plan, self.algorithm, view, judged, state, self.seeds, dealt)
            parts.append(did)
            chosen = chosen[now:]
        return state, jax.tree.map(lambda *a: np.concatenate([np.asarray(b) for b in a]), *parts)

    def evaluate(self, state: ServerState, split: str) -> dict[str, np.ndarray]:
        """Measure models on a part of the data: history column → its value for each experiment.

        The shared model, each client's own model on its own examples, and each client's own model on everybody's have
        names of their own: see :mod:`fedloom.measures`.
        """
        found: dict[str, np.ndarray] = {}
        for models in measured_models(self.algorithm, self.data, split):
            means = self.means(state, split, models)
            found |= {Measure(models, split, name).column: value for name, value in means.items()}
        return found

    def means(self, state: ServerState, split: str, models: str) -> dict[str, np.ndarray]:
        """Return metric → its value over all examples, for each experiment: of the shared model or of own models."""
        if models == SHARED:
            return self.judge.evaluate(state.variables, split)
        part = split if models == OWN or split not in self.data.clients else EVERYBODYS + split
        sums = {name: value.sum(1) for name, value in self.users(state, part).items()}
        means = {name: value / sums["count"] for name, value in sums.items() if name != "count"}
        return {**means, **self.over_own(state, part)} if self.task.overall else means

    def measures(self, state: ServerState, splits: Sequence[str]) -> dict[str, np.ndarray]:  # noqa: ARG002
        """What else there is to know of each experiment's state, by name, with the parts of the data to evaluate."""
        return {}

    def close(self) -> None:
        """Let go of what it holds outside this process, if it still does; nothing for most."""

    def users(self, state: ServerState, split: str) -> dict[str, np.ndarray]:
        """Metric (and ``count``) → its sum over each client's examples of a part: (experiments, clients)."""
        view = self.store.view(np.arange(len(self.data)), split)
        found = users(self.task, self.plan, self.algorithm, view, state)
        return {name: np.asarray(value, np.float64) for name, value in found.items()}

    def predictions(self, state: ServerState, part: str) -> PyTree:
        """Return the outputs of each client's own model for its examples of a part: (experiments, clients, rows, …)."""
        view = self.store.view(np.arange(len(self.data)), part)
        return jax.tree.map(np.asarray, users(self.task, self.plan, self.algorithm, view, state, judge=predicted))

    def over_own(self, state: ServerState, part: str) -> dict[str, np.ndarray]:
        """Return metrics over all predictions of a part by clients' own models, for each experiment.

        Where the clients have examples of the part, each example is predicted by its client's model, and a metric is
        over all of them. Where every model predicts the same examples, it is the mean of the models' metrics.
        """
        outputs, data = self.predictions(state, part), self.data
        rows = [rows_of(data, part, client) for client in range(len(data))]
        found = []
        for x in range(len(self.seeds)):
            mine = [jax.tree.map(lambda a, k=k: a[x, k, : len(rows[k])], outputs) for k in range(len(data))]  # noqa: B023
            if part in data.clients:
                every = jax.tree.map(lambda *a: np.concatenate(a), *mine)
                found.append(over_split(self.task, every, labels(data, np.concatenate(rows)), part))
            else:
                one = [over_split(self.task, own, labels(data, rows[0]), part) for own in mine]
                found.append({name: float(np.mean([f[name] for f in one])) for name in one[0]})
        return {name: np.array([one[name] for one in found]) for name, _ in self.task.overall}


@dataclass(frozen=True, eq=False)
class Round:
    """One round of all experiments: each device works through its part of every cohort, then they add up what they
    have. The arguments are those of :func:`_advance`.
    """

    task: Task
    plan: Plan
    algorithm: Algorithm
    view: View
    judged: dict[str, View]
    seeds: Array

    def __call__(self, state: ServerState, coming: tuple[Array, Array]) -> tuple[ServerState, Rounds]:
        """The state after it, and what it did."""
        clients, last = coming[0][:, 0], coming[1]
        kept = None if state.kept is None else taken(state.kept, clients)
        cohort = Cohort(
            self.task, self.plan, self.algorithm, self.view, state.sent, self.seeds, state.round, clients, kept=kept
        )
        return self.after(state, clients, last, kept, *work_through(cohort))

    def after(
        self,
        state: ServerState,
        clients: Int[Array, "X m"],
        last: Bool[Array, ""],
        kept: PyTree | None,
        mine: Total,
        keeps: PyTree,
        read: dict[str, Array] | None = None,
    ) -> tuple[ServerState, Rounds]:
        """The state after a cohort's work: what was kept before it, what its replies add up to, what it keeps, and what
        was read of its models, where others have read it.
        """
        plan, algorithm = self.plan, self.algorithm
        worked = Worked(algorithm.local, state.variables, kept or {}, mine.update, keeps)
        if plan.stacked:
            if read is None:
                read = readings(self.task, plan, algorithm.readings, self.judged, worked, clients)
            mine = self.weighed(mine, read, state.round, clients)
        measure = lambda view, moment: measured(self.task, plan, view, worked, clients, moment, seen)  # noqa: E731
        see = lambda: observed(self.judged, clients, measure)  # noqa: E731
        notes = together(plan, sometimes(last, see)) if plan.observed else {}
        total: Total = lax.psum(mine, machine.AXIS) if plan.mesh.size > 1 else mine
        replied = jnp.any(clients >= 0, axis=1)
        counted = (lax.psum(replied, machine.AXIS) > 0 if plan.mesh.size > 1 else replied) & (total.weight > 0)
        if state.kept is not None:  # clients keep what they had if no update of the round counted
            everyone, keeps = together(plan, (clients, keeps))
            state = replace(state, kept=returned(state.kept, jnp.where(counted[:, None], everyone, -1), keeps))
        somebody = jnp.where(total.weight > 0, total.weight, 1)  # nobody counts if nobody has examples
        mean = jax.tree.map(lambda a: jax.vmap(jnp.divide)(a, somebody), total.update)
        everybody = len(self.view.size)
        apply = lambda a, s, u, aside, counted: a.apply(s, u, aside, everybody, counted)  # noqa: E731
        norm = jax.vmap(optax.tree.norm)(mean.params)
        broken = None if algorithm.combiner.trusting else total.broken
        return jax.vmap(apply)(algorithm, state, mean, total.aside, counted), Rounds(
            norm, total.computed, notes, broken
        )

    def weighed(
        self, kept: Total, read: dict[str, Array], round: Int[Array, " X"], clients: Int[Array, "X m"]
    ) -> Total:
        """What replies that were kept come to, knowing what all devices' clients read: their sum, each weighted; or
        what the combiner makes of all of them.
        """
        plan, algorithm = self.plan, self.algorithm
        sizes = jnp.where(clients >= 0, self.view.size[clients], 0).astype(jnp.float32)
        hear = lambda a, updates, replies: heard(a.combiner, updates, replies)  # noqa: E731
        updates, mine = jax.vmap(hear)(algorithm, kept.update, Replies(sizes, clients >= 0, read))
        rates = jax.vmap(lambda local, r: local.batches.rate(r))(algorithm.local, round)
        every = replace(together(plan, mine), rate=rates)
        weights, total = jax.vmap(lambda a, replies: weighed(a.weighting, replies))(algorithm, every)
        if not algorithm.combiner.alone:
            each = lambda given: jax.vmap(lambda a, u, w: a.combiner.combine(u, w))(algorithm, given, weights)  # noqa: E731
            found = by_coordinates(plan.mesh, each, updates)
            update, weight = one_says(plan, (found, (total > 0).astype(total.dtype)))
            return replace(kept, update=update, weight=weight)
        share = total / jnp.where(weights.sum(1) > 0, weights.sum(1), 1)
        if plan.mesh.size > 1:
            m = clients.shape[1]
            weights = lax.dynamic_slice_in_dim(weights, lax.axis_index(machine.AXIS) * m, m, 1)
            total = total / plan.mesh.size  # every device knows all of it, and they are about to be added up
        return replace(kept, update=jax.vmap(summed)(updates, weights, share), weight=total)


@partial(jax.jit, static_argnames=("task", "clients"))
def _begun(task: Task, clients: int, algorithm: Algorithm, seeds: UInt32[Array, " X"]) -> ServerState:
    """Every experiment's state before its first round."""
    first = lambda a, seed: a.init(task.init(stream(seed, INIT)), clients)  # noqa: E731
    states: ServerState = jax.vmap(first)(algorithm, seeds)
    return states


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
    """Rounds in one program."""
    return in_turn(plan, partial(Round, task, plan), (algorithm, view, judged, seeds), state, schedule)


def in_turn(
    plan: Plan, one: Callable[..., Any], given: tuple[Any, ...], state: T, schedule: Int[Array, "rounds X devices m"]
) -> tuple[T, Rounds]:
    """One round after another, on every device: the state after them, and what they did.

    Arguments:
        plan: the devices.
        one: makes of what is given a function of one round: (state, (its clients, whether it is the last)) → (state,
            what it did).
        given: what all devices have.
        schedule: each round's clients on each device.
    """

    def rounds(given: tuple[Any, ...], state: T, schedule: Array) -> tuple[T, Rounds]:
        last = jnp.arange(len(schedule)) == len(schedule) - 1
        return lax.scan(one(*given), state, (schedule, last))

    done: tuple[T, Rounds] = machine.on_each(plan.mesh, rounds, P(), P(), SCHEDULE)(given, state, schedule)
    return done


def sometimes(now: Bool[Array, ""], make: Callable[[], T]) -> T:
    """What is made, if it is time for it, else zeros like it."""
    nothing = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(make))
    return lax.cond(now, make, lambda: nothing)


def together(plan: Plan, mine: T) -> T:
    """What all devices have, (X, m, …) on each, one after the other."""
    return lax.all_gather(mine, machine.AXIS, axis=1, tiled=True) if plan.mesh.size > 1 else mine


def one_says(plan: Plan, known: T) -> T:
    """What all devices know, on the first of them, and zeros on the others: they are about to be added up."""
    if plan.mesh.size == 1:
        return known
    first = lax.axis_index(machine.AXIS) == 0
    return jax.tree.map(lambda a: jnp.where(first, a, jnp.zeros_like(a)), known)


def observed(
    views: dict[str, View], client: Int[Array, "X m"], measure: Callable[[View, str], dict[str, Array]]
) -> dict[str, Array]:
    """Return the clients that took part, and their values of each measurement for which there is a view."""
    seen = {"client": client}
    for name, (_, moment) in MEASUREMENTS.items():
        if name in views:
            seen |= {f"{name}_{metric}": value for metric, value in measure(views[name], moment).items()}
    return seen


def clients_of(program: Program, did: Rounds, member: int) -> dict[str, np.ndarray]:
    """Return what was measured of each client of one experiment's last round."""
    last = {name: jax.tree.map(lambda a: np.asarray(a)[-1, member], values) for name, values in did.users.items()}
    return over_clients(program.task, program.data, last, {name: part for name, (part, _) in MEASUREMENTS.items()})
