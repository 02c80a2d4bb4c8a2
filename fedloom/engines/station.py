"""Station: what a worker of a crew does: clients' local work, compiled, or by clients' own code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

import fedloom.engines.devices as machine
from fedloom.algorithms.method import Method
from fedloom.clients.client import Broadcast, Client
from fedloom.combine.replies import Replies
from fedloom.data.federated import FederatedData
from fedloom.engines.lanes import Cohort, Total, work_through
from fedloom.engines.plan import Plan, plan
from fedloom.engines.schedule import client_key
from fedloom.engines.store import Store, View, part_of, store
from fedloom.errors import CrewError
from fedloom.local import Sent
from fedloom.shuffle import words
from fedloom.tasks.task import Batch, Task, Variables
from fedloom.trees import flatten, stack, unflatten

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, PyTree, UInt32

Found = tuple[Any, Any, dict[str, np.ndarray]]
"""What clients' replies add up to, or all of them; what the clients keep; and what was read of their models."""


@dataclass
class Station:
    """Compiles clients' local work, on one device. All arrays have a leading axis of experiments.

    Arguments:
        data, task, algorithms, seeds: of the experiments.
        observed: whether all replies are wanted.
        first: the number of the first client of the data, from which random keys are made.
    """

    data: FederatedData
    task: Task
    algorithms: Sequence[Method]
    seeds: Sequence[int]
    observed: bool = False
    first: int = 0

    @cached_property
    def plan(self) -> Plan:
        """How a piece of work is laid out."""
        machine.devices()
        sizes = self.data.clients["train"].size
        slowest = max(self.algorithms, key=lambda a: a.local.batches.most_steps(sizes))
        return plan(self.task, slowest, sizes, self.data.columns, len(self.seeds), None, 1, self.observed, whole=False)

    @cached_property
    def store(self) -> Store:
        """The examples."""
        return store(self.data, self.plan.mesh, None)

    @cached_property
    def algorithm(self) -> Method:
        """The experiments' algorithms, stacked."""
        stacked: Method = machine.place(stack(list(self.algorithms)), self.plan.mesh)
        return stacked

    @cached_property
    def like(self) -> Sent:
        """What is sent, in shapes."""
        one = lambda a: (v := self.task.init(jax.random.key(0)), Sent(v, a.local.broadcast(v)))[1]  # noqa: E731
        each = jax.eval_shape(one, self.algorithms[0])
        sent: Sent = jax.tree.map(lambda a: jax.ShapeDtypeStruct((len(self.seeds), *a.shape), a.dtype), each)
        return sent

    def work(
        self,
        sent: Mapping[str, np.ndarray],
        round: int,
        clients: Int[np.ndarray, "X c"],
        kept: PyTree | None,
        own: Sent | None = None,
        limit: Int[np.ndarray, "X c"] | None = None,
    ) -> Found:
        """Return the local work of some clients in a round.

        Args:
            sent: what all clients are sent; unused if they are sent different models.
            round: the number of the round.
            clients: the clients; -1 is none.
            kept: what each of them keeps.
            own: what each of them is sent, if they are sent different models.
            limit: the most optimiser steps that each of them has time for, if a deadline may stop them.
        """
        rounds, seeds = np.full(len(self.seeds), round, np.int32), np.array(self.seeds, np.uint32)
        received = unflatten(self.like, dict(sent)) if own is None else own
        place = np.broadcast_to(np.arange(clients.shape[1], dtype=np.int32), clients.shape)
        which = None if own is None else place
        given = received, seeds, rounds, clients, kept, which, np.int32(self.first), limit
        total, keeps = _work(self.task, self.plan, self.algorithm, self.store.view(clients), *given)
        return (*jax.tree.map(np.asarray, (total, keeps)), {})


@partial(jax.jit, static_argnames=("task", "plan"))
def _work(
    task: Task,
    plan: Plan,
    algorithm: Method,
    view: View,
    sent: Sent,
    seeds: UInt32[Array, " X"],
    round: Int[Array, " X"],
    clients: Int[Array, "X c"],
    kept: PyTree | None,
    which: Int[Array, "X c"] | None,
    first: Int[Array, ""],
    limit: Int[Array, "X c"] | None,
) -> tuple[Total, PyTree]:
    return work_through(Cohort(task, plan, algorithm, view, sent, seeds, round, clients, which, kept, first, limit))


@dataclass
class NativeStation:
    """Runs clients with code of their own. All arrays have a leading axis of experiments.

    Args:
        data: the examples of all clients.
        task: makes clients.
        algorithms: of the experiments.
        seeds: of the experiments.
        observed: not used here.
        held_out: for each part that is assigned to no client, a client that has its examples.
    """

    data: FederatedData
    task: Task
    algorithms: Sequence[Method]
    seeds: Sequence[int]
    observed: bool = False
    held_out: dict[str, Client] = field(default_factory=dict)

    def work(
        self,
        sent: Mapping[str, np.ndarray],
        round: int,
        clients: Int[np.ndarray, "X c"],
        kept: PyTree | None,
        own: Sent | None = None,
        limit: None = None,  # noqa: ARG002
    ) -> Found:
        """Return the local work of some clients in a round; the arguments are those of :meth:`Station.work`.

        Nobody can stop a client with code of its own, so there is no limit.
        """
        stacked = self.algorithms[0].keeps_updates
        each = []
        for x, mine in enumerate(clients):
            shared = {} if own is not None else weights_of(sent, x)
            models = [shared if own is None else own_of(own, x, i) for i in range(len(mine))]
            each.append(self.trained(models, x, round, mine, stacked))
        totals, read = [total for total, _ in each], [found for _, found in each]
        readings = {name: np.stack([found[name] for found in read]) for name in read[0]}
        return jax.tree.map(lambda *a: np.stack(a), *totals), kept, readings

    def trained(
        self,
        models: Sequence[dict[str, np.ndarray]],
        x: int,
        round: int,
        clients: Int[np.ndarray, " c"],
        stacked: bool,
    ) -> tuple[Total, dict[str, np.ndarray]]:
        """Return the work of some clients of one experiment, and what was read of their models.

        Args:
            models: the model that each client begins with.
            x: the number of the experiment.
            round: the number of the round.
            clients: the clients; -1 is none.
            stacked: True to return every update, False for Σ weight · update.
        """
        algorithm = self.algorithms[x]
        room = (len(clients),) if stacked else ()
        total = {name: np.zeros(room + w.shape, w.dtype) for name, w in models[0].items()}
        weight, steps, broken = np.float32(0), 0, 0
        needs = () if algorithm.routing.exchanges_models else algorithm.readings
        read = {need.name: np.zeros(len(clients), np.float32) for need in needs}
        for slot, who in enumerate(clients.tolist()):
            if who < 0:
                continue
            weights = models[slot]
            told, client = self.broadcast(algorithm, weights, x, round, who), self.client(who)
            found = checked(client.fit(told), weights, self.data.called(who), algorithm)
            n = int(self.data.clients["train"].size[who])
            update = {name: after - weights[name] for name, after in found.items()}
            mine, update = (np.float32(1), update) if stacked else _alone(algorithm, update, n)
            for name, change in update.items():
                total[name][slot if stacked else ...] += mine * change
            weight += np.float32(0) if stacked else mine
            broken += not _finite(found)
            steps += told.epochs * -(-n // (told.batch_size or n))
            for need in needs:
                model = found if need.moment == "after" else weights
                sums = self.judging(need.part, client).evaluate(replace(told, weights=model), need.part)
                read[need.name][slot] = mean_metric(sums, need.metric, self.data.called(who))
        counted: Any = np.float32(weight), np.float32(steps), np.float32(broken)
        return Total(Variables(total, {}), counted[0], {}, *counted[1:]), read

    def losses(
        self, sent: Mapping[str, np.ndarray], clients: Int[np.ndarray, "X c"]
    ) -> Float[np.ndarray, "X c outputs"]:
        """Return the loss of every output on the training examples of each client; -1 is no client."""
        found = []
        for x, mine in enumerate(clients):
            outputs = weights_of(sent, x)
            count = len(next(iter(outputs.values())))
            models = [{name: a[j] for name, a in outputs.items()} for j in range(count)]
            found.append([[self.loss(model, x, max(int(who), 0)) for model in models] for who in mine])
        return np.array(found, np.float32)

    def loss(self, model: dict[str, np.ndarray], x: int, who: int) -> float:
        """Return the loss of a model on the training examples of a client."""
        sums = self.client(who).evaluate(self.broadcast(self.algorithms[x], model, x, 0, who), "train")
        return mean_metric(sums, "loss", self.data.called(who))

    def judge(
        self, _: Mapping[str, np.ndarray], part: str, clients: Int[np.ndarray, " c"], sent: Sent
    ) -> list[list[dict[str, float]]]:
        """Each experiment's users with their own models on their own examples of a part: sums."""
        found = []
        for x, algorithm in enumerate(self.algorithms):
            told = [self.broadcast(algorithm, own_of(sent, x, i), x, 0, int(who)) for i, who in enumerate(clients)]
            found.append([self.client(int(who), part).evaluate(b, part) for who, b in zip(clients, told, strict=True)])
        return found

    def evaluate(self, sent: Mapping[str, np.ndarray], part: str, rows: np.ndarray) -> list[dict[str, float]]:
        """Each experiment's model on some examples: sums."""
        assert self.task.client is not None
        client = self.task.client({part: self.columns(rows)})
        return [client.evaluate(self.broadcast(a, weights_of(sent, x), x, 0, 0), part)
                for x, a in enumerate(self.algorithms)]  # fmt: skip

    def client(self, who: int, judged: str | None = None) -> Client:
        """A client with its examples, and those of a part that is nobody's, if it is judged on them."""
        assert self.task.client is not None
        parts = {part: self.columns(self.data.examples(part, who)) for part in self.data.clients}
        if judged is not None and judged not in parts:
            parts[judged] = self.columns(part_of(self.data, judged)[0])
        made: Client = self.task.client({part: columns for part, columns in parts.items() if len(columns["y"])})
        return made

    def judging(self, part: str, client: Client) -> Client:
        """Return the client that judges a client's model on a part of the data: itself on its own examples; on examples
        that are held out and assigned to no client, one that has these and nothing else.
        """
        if part in self.data.clients:
            return client
        if part not in self.held_out:
            assert self.task.client is not None
            self.held_out[part] = self.task.client({part: self.columns(part_of(self.data, part)[0])})
        return self.held_out[part]

    def columns(self, rows: np.ndarray) -> Batch:
        """Some examples."""
        return {name: column[rows] for name, column in self.data.columns.items()}

    def broadcast(self, algorithm: Method, weights: dict[str, np.ndarray], x: int, round: int, who: int) -> Broadcast:
        """What a client is sent in a round."""
        batches = algorithm.local.batches.of(who)
        key = np.asarray(words(client_key(jnp.uint32(self.seeds[x]), jnp.int32(round), jnp.int32(who)))).tolist()
        rate = float(batches.rate(jnp.int32(round)))
        return Broadcast(weights, round, rate, int(batches.epochs), batches.batch_size, (key[0], key[1]))


def weights_of(sent: Mapping[str, np.ndarray], x: int) -> dict[str, np.ndarray]:
    """The model of an experiment, by the names that clients know."""
    lead = "variables.params."
    return {name.removeprefix(lead): a[x] for name, a in sent.items() if name.startswith(lead)}


def own_of(sent: Sent, x: int, i: int) -> dict[str, np.ndarray]:
    """The i-th user's model of an experiment, by the names that clients know."""
    return {name: np.asarray(a)[x, i] for name, a in flatten(sent.variables.params).items()}


def mean_metric(sums: Mapping[str, float], metric: str, who: str) -> float:
    """Return the mean of a metric from the sums that a client's ``evaluate`` gives.

    Raises:
        CrewError: the client does not give this metric, or not over how many examples.
    """
    for name in (metric, "count"):
        if name not in sums:
            raise CrewError(f"evaluate of {who} gives no {name}, which the weighting reads; it gives {', '.join(sums)}")
    return sums[metric] / sums["count"]


def _alone(algorithm: Method, update: dict[str, np.ndarray], n: int) -> tuple[np.float32, dict[str, np.ndarray]]:
    """The weight of the reply of a client with n examples, where it depends on nothing else, and the reply as it enters
    the sum.
    """
    heard, counts = algorithm.combiner.heard(Variables(update, {}))
    reply = Replies(jnp.full(1, n, jnp.float32), counts[None], {})
    weight = np.float32(algorithm.routing.weigh(reply)[0]) if counts else np.float32(0)
    return weight, {name: np.asarray(change) for name, change in heard.params.items()}


def _finite(weights: dict[str, np.ndarray]) -> bool:
    return all(np.isfinite(a).all() for a in weights.values())


def checked(answer: Any, weights: dict[str, np.ndarray], who: str, algorithm: Method) -> dict[str, np.ndarray]:
    """A client's weights, if they are those it was sent, in name and shape, and finite, where nothing else is made of
    those that are not.
    """
    trusting = algorithm.combiner.trusting
    found: dict[str, np.ndarray] = {name: np.asarray(a) for name, a in answer.weights.items()}
    for name, sent in weights.items():
        mine = found.get(name)
        if mine is None or np.shape(mine) != sent.shape:
            told = "nothing" if mine is None else f"an array of shape {np.shape(mine)}"
            raise CrewError(f"{who} sent back {told} for {name}, which has the shape {sent.shape}")
        if trusting and not np.isfinite(mine).all():
            raise CrewError(f"{who} sent back {name} with numbers that are not finite: try a smaller learning rate")
    return {name: found[name] for name in weights}
