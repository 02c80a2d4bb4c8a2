"""Program: one or several experiments on the same data and task, ready to run, as the host sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

import fedloom.engines.devices as machine
from fedloom.algorithms.method import Method, RoundState
from fedloom.data.federated import FederatedData
from fedloom.engines.client_states import enter
from fedloom.engines.clock import Clock, Message, Passed
from fedloom.engines.cohorts import Cohorts
from fedloom.engines.deferred import Columns, Deferred, known, merge
from fedloom.engines.elapsed import answers, limits, passed
from fedloom.engines.evaluate import Judge, measured_models
from fedloom.engines.observed import MEASUREMENTS, Rounds
from fedloom.engines.own_models import consensus, mean_model
from fedloom.engines.pairs import Everyone, everyone
from fedloom.engines.plan import Plan
from fedloom.engines.predictions import labels, over_clients, over_split, predicted, rows_of
from fedloom.engines.round import advance, begun, choices
from fedloom.engines.schedule import PEERS, deal, stream
from fedloom.engines.store import EVERYBODYS, Store, View
from fedloom.engines.users import users
from fedloom.local.batches import of_client
from fedloom.measures import MEAN, OWN, SHARED, Measure
from fedloom.tasks.task import Task
from fedloom.trees import member, nbytes

if TYPE_CHECKING:
    from jaxtyping import Array, PyTree


@dataclass(frozen=True)
class Program:
    """One or several experiments on the same data and task, ready to run; made by :meth:`Compiled.program`.

    Args:
        task: the model and its loss.
        method: the methods of all experiments, stacked.
        data: the examples of all clients.
        plan: the layout of the work.
        store: the examples as devices read them.
        judge: evaluates shared models.
        seeds: of the experiments.
        m: the number of clients in a round.
        clock: the machines and links that are simulated, if any.
    """

    task: Task
    method: Method
    data: FederatedData
    plan: Plan
    store: Store
    judge: Judge
    seeds: np.ndarray
    m: int
    clock: Clock | None = None

    def init(self) -> RoundState:
        """Return every experiment's state before its first round."""
        return self.place(self.begun(self.method, self.seeds))

    def begun(self, method: Method, seeds: Array | np.ndarray) -> RoundState:
        """Return the same, not on the program's devices yet."""
        states: RoundState = begun(self.task, len(self.data), method, seeds)
        return states

    def place(self, state: RoundState) -> RoundState:
        """Return a state on the program's devices."""
        placed: RoundState = machine.place(state, self.plan.mesh)
        return placed

    @property
    def moved(self) -> int:
        """The mean number of models that clients send in a round; 0 if one client has all data."""
        routing = self.method.routing
        if routing.exchanges_models or len(self.data) > 1:
            return routing.mean_models_sent(self.m)
        return 0

    def sent(self, first: int, rounds: int, i: int) -> int:
        """Return the number of models that clients of an experiment send in the rounds from the first on."""
        if not self.moved:
            return 0
        routing, seed = member(self.method, i).routing, int(self.seeds[i])
        if routing.has_server:
            return rounds * self.moved
        key = lambda round: lambda: stream(seed, PEERS, round)  # noqa: E731
        return sum(routing.models_sent(self.m, round, key(round)) for round in range(first, first + rounds))

    @property
    def down(self) -> int:
        """The number of models that a client is sent for each model that it sends; 0 without a server."""
        return self.method.routing.models_down(len(self.data))

    def model_bytes(self, state: RoundState) -> int:
        """Return the bytes that are sent with one model."""
        outputs = self.method.routing.outputs(len(self.data))
        return (nbytes(state.sent) - nbytes(self.hidden(state))) // (len(self.seeds) * outputs)

    def hidden(self, state: RoundState) -> PyTree:
        """Return the arrays of all models that never leave a client."""
        return self.method.local.private_leaves(state.variables)

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

    def judged_on(self, clients: np.ndarray) -> dict[str, View]:
        """Return part → the examples that weights depend on, and measurement → the test examples that it uses."""
        parts = {name: MEASUREMENTS[name][0] for name in self.measurements}
        parts |= {need.part: need.part for need in self.method.readings}
        views = {part: self.store.view(clients, part) for part in sorted(set(parts.values()))}
        return {name: views[part] for name, part in parts.items()}

    def read_by_all(self) -> dict[str, Everyone]:
        """Return part → all clients' examples, for methods in which every client reads every client's model."""
        if not self.method.routing.exchanges_models:
            return {}
        return {part: self.everyone(part) for part in sorted({need.part for need in self.method.readings})}

    def everyone(self, part: str) -> Everyone:
        """Return all clients' examples of a part, on the devices."""
        assert self.store.resident is not None
        name = f"everyone's {part}"
        if name not in self.store.placed:
            self.store.placed[name] = machine.place(Everyone({}, *everyone(self.data, part)), self.plan.mesh)
        found: Everyone = self.store.placed[name]
        return Everyone(self.store.resident.columns, found.rows, found.owner)

    @cached_property
    def message(self) -> Message:
        """The bytes that a client is sent in a round and sends back."""
        if not self.moved:
            return Message(0, 0)
        size = self.model_bytes(jax.eval_shape(self.begun, self.method, self.seeds))
        return Message(self.down * size, size)

    def asked(self, first: int, rounds: int) -> np.ndarray:
        """Return the clients that are asked in the rounds from the first on: (rounds, experiments, m)."""
        return self._asked.of_rounds(first, rounds)

    @cached_property
    def _asked(self) -> Cohorts:
        return Cohorts(self.method.selection, self.seeds, self.data.clients["train"].size, self.m)

    def cohorts(self, first: int, rounds: int) -> np.ndarray:
        """Return the clients that take part: those that are asked and, by the clock, answer in time; -1 is none."""
        asked = self.asked(first, rounds)
        if self.clock is None or (self.clock.deadline is None and not self.clock.lost):
            return asked
        there = [[answers(self, self.clock, asked[r, x], first + r, x) for x in range(asked.shape[1])]
                 for r in range(rounds)]  # fmt: skip
        return np.where(there, asked, -1)

    def passed(self, before: Passed, first: int, rounds: int, i: int) -> Passed:
        """Return what has passed by the clock after some more rounds of an experiment."""
        return passed(self, before, first, rounds, i)

    def steps(self, cohort: np.ndarray) -> np.ndarray:
        """Return the steps in which each client of a cohort (…, experiments, m) is computed; 0 for none."""
        return self._counted(cohort, lambda local, n: local.batches.steps(n, self.plan.rows))

    def taken(self, cohort: np.ndarray, first: int | None = None) -> np.ndarray:
        """Return the steps that each client of a cohort (…, experiments, m) takes, in however many pieces.

        Args:
            cohort: the clients; -1 is none.
            first: the number of the first round, where a deadline may stop clients: (rounds, experiments, m).
        """
        every = self._counted(cohort, lambda local, n: local.gradient_count(n))
        most = None if first is None else limits(self, first, cohort)
        return (
            every if most is None else np.minimum(every, most.astype(np.int64) * self.method.local.gradients_per_step)
        )

    def _counted(self, cohort: np.ndarray, count: Callable[[Any, np.ndarray], Array]) -> np.ndarray:
        sizes = self.data.clients["train"].size
        experiments = zip(self._local, np.moveaxis(cohort, -2, 0), strict=True)
        each = [np.asarray(count(of_client(local, who), sizes[who])) for local, who in experiments]
        return np.asarray(np.where(cohort >= 0, np.stack(each, axis=-2), 0))

    @cached_property
    def _local(self) -> list[Any]:
        local = jax.tree.map(np.asarray, self.method.local)
        return [member(local, x) for x in range(len(self.seeds))]

    def steps_of(self, clients: np.ndarray, i: int) -> np.ndarray:
        """Return the steps that each of some clients takes in a round of one experiment."""
        every: np.ndarray = self.taken(np.broadcast_to(clients, (len(self.seeds), len(clients))))[i]
        return every

    def entered(self, state: RoundState, chosen: np.ndarray) -> RoundState:
        """Return a state with room for what the clients of the coming rounds keep."""
        if state.clients is None:
            return state
        return replace(state, clients=machine.place(enter(state.clients, chosen), self.plan.mesh))

    @property
    def runs_ahead(self) -> bool:
        """True if :meth:`advance` may return before its rounds are computed: all examples are on the device."""
        return self.store.resident is not None

    def advance(self, state: RoundState, first: int, rounds: int) -> tuple[RoundState, Rounds]:
        """Return the state some rounds later, and what those rounds did."""
        parts = []
        chosen = every = self.cohorts(first, rounds)
        state = self.entered(state, chosen)
        while len(chosen):
            now = self.store.fitting(chosen)
            dealt = deal(chosen[:now], self.steps(chosen[:now]), self.plan.mesh.size)
            given = self.method, self.store.view(dealt), self.judged_on(dealt), self.read_by_all()
            schedule = dealt, limits(self, first + len(every) - len(chosen), dealt)
            state, did = advance(self.task, self.plan, self.m, *given, state, self.seeds, schedule)
            parts.append(did if self.runs_ahead else jax.device_get(did))
            chosen = chosen[now:]
        did = parts[0] if len(parts) == 1 else jax.tree.map(lambda *a: np.concatenate(a), *parts)
        return state, replace(did, cohort=every)

    def evaluate(self, state: RoundState, split: str) -> Columns:
        """Measure models on a part of the data: history column → its value for each experiment.

        The shared model, each client's own model on its own examples, and each client's own model on everybody's have
        names of their own: see :mod:`fedloom.measures`.
        """
        return self.evaluation(state, split).fetch()

    def evaluation(self, state: RoundState, split: str) -> Deferred[Columns]:
        """Dispatch the measurements that :meth:`evaluate` returns."""
        each = measured_models(self.method, self.data, split)
        return merge([self.means(state, split, models).then(partial(named, models, split)) for models in each])

    def means(self, state: RoundState, split: str, models: str) -> Deferred[Columns]:
        """Return metric → its value over all examples, for each experiment: of the shared model or of own models."""
        if models == SHARED:
            return self.judge.means(state.variables, split)
        part = split if models == OWN or split not in self.data.clients else EVERYBODYS + split
        state = self.choosing(state)
        sums = {name: value.sum(1) for name, value in self.users(state, part).items()}
        means = {name: value / sums["count"] for name, value in sums.items() if name != "count"}
        return known({**means, **self.over_own(state, part)} if self.task.overall else means)

    def choosing(self, state: RoundState) -> RoundState:
        """Return the state in which every client has chosen its output anew, where clients choose."""
        if not self.method.routing.chooses:
            return state
        everybody = np.arange(len(self.data), dtype=np.int32)
        choice = choices(self.task, self.plan, self.method, self.store.view(everybody), state.variables)
        return self.with_choice(state, everybody, choice)

    def with_choice(self, state: RoundState, clients: np.ndarray, choice: Array) -> RoundState:
        """Return the state in which some clients have chosen outputs."""
        remember = lambda a, memory, chosen: a.routing.remember_choice(memory, clients, chosen)  # noqa: E731
        return replace(state, memory=jax.vmap(remember)(self.method, state.memory, choice))

    def measures(self, state: RoundState, splits: Sequence[str]) -> Deferred[Columns]:
        """Return measures of each experiment's state that no part of the data has, by name.

        Where clients mix models of their own: ``consensus``, the root mean square distance of their parameters from the
        mean model's. Where these models are to become equal, also the mean model's metrics: ``mean_test_accuracy`` …
        """
        routing = self.method.routing
        if not routing.exchanges_models:
            return known({})
        found = Deferred({"consensus": consensus(state.variables)}, dict)
        if not routing.seeks_consensus or self.task.client is not None:
            return found
        mean = mean_model(state.variables)
        return merge([found, *(self.judge.means(mean, split).then(partial(named, MEAN, split)) for split in splits)])

    def close(self) -> None:
        """Release what the program holds outside this process, if anything."""

    def users(self, state: RoundState, split: str) -> dict[str, np.ndarray]:
        """Return metric (and ``count``) → its sum over each client's examples of a part: (experiments, clients)."""
        view = self.store.view(np.arange(len(self.data)), split)
        found = users(self.task, self.plan, self.method, view, state)
        return {name: np.asarray(value, np.float64) for name, value in found.items()}

    def predictions(self, state: RoundState, part: str) -> PyTree:
        """Return the outputs of each client's own model for its examples of a part: (experiments, clients, rows, …)."""
        view = self.store.view(np.arange(len(self.data)), part)
        return jax.tree.map(np.asarray, users(self.task, self.plan, self.method, view, state, judge=predicted))

    def over_own(self, state: RoundState, part: str) -> dict[str, np.ndarray]:
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


def named(models: str, split: str, means: Mapping[str, np.ndarray]) -> Columns:
    """Return history column → value, from metric → value of some models on a part of the data."""
    return {Measure(models, split, name).column: value for name, value in means.items()}


def clients_of(program: Program, did: Rounds, member: int) -> dict[str, np.ndarray]:
    """Return what was measured of each client of one experiment's last round."""
    last = {name: jax.tree.map(lambda a: np.asarray(a)[-1, member], values) for name, values in did.users.items()}
    return over_clients(program.task, program.data, last, {name: part for name, (part, _) in MEASUREMENTS.items()})
