"""Course: what a run is, from what its owner says of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from fedloom.algorithms import Method, RoundState
from fedloom.data.federated import FederatedData
from fedloom.direction import metric_of, require_direction
from fedloom.engines.evaluate import judge
from fedloom.engines.spreading import Spreading
from fedloom.engines.station import NativeStation, weights_of
from fedloom.engines.store import store
from fedloom.errors import choose, require
from fedloom.federation.arithmetic import Arithmetic, arithmetic
from fedloom.federation.rules import Rules
from fedloom.runs.monitor import columns, default_monitor
from fedloom.runs.stopping import Stop
from fedloom.tasks.task import Task
from fedloom.trees import flatten

CLIENTS, OWN_MODELS = "clients_", "own_clients_"
"""What the columns begin with that the round's participants measured on their own examples: of the shared model, and,
where each participant has a model of its own (Ditto, FedPer, FedRep, FedBN), of that."""
Evaluate = Callable[[RoundState], Mapping[str, float]]
"""A state → what is measured of its model, by name."""


@dataclass(frozen=True)
class Course:
    """What a run is: what it computes, by which rules, and when it has done enough.

    Arguments:
        arithmetic: the server's part of the algorithm.
        rules: how rounds begin and end.
        stop: when it has done enough.
        evaluate: what is measured after every round.
        about: what participants are told of it, as JSON.
        identity: what makes it this run and no other.
        label: what it is called.
    """

    arithmetic: Arithmetic
    rules: Rules
    stop: Stop
    evaluate: Evaluate
    about: str
    identity: Mapping[str, Any]
    label: str = "a run"

    def about_for(self, number: int, name: str) -> str:
        """Return what a participant is told of the run: with its own epochs, where participants differ.

        Raises:
            ArgumentError: the participant has no epochs.
        """
        return about_one(self.arithmetic, self.about, number, name)

    @property
    def prefix(self) -> str:
        """What the columns begin with that participants measured."""
        return OWN_MODELS if self.arithmetic.algorithm.is_personal else CLIENTS


def course(
    task: Task,
    algorithm: Method,
    *,
    seed: int = 0,
    data: FederatedData | None = None,
    stop: Stop | None = None,
    rules: Rules | None = None,
    label: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> Course:
    """A run, as a server needs it; the arguments are those of :func:`fedloom.federation.serve`.

    Arguments:
        more: what else participants are told.
    """
    stop, mine = stop or Stop(), arithmetic(task, algorithm, seed)
    stop.require_last("over a network")
    if task.client is not None:
        Spreading(1, 1).check(mine.algorithm, native=True, observed=False)
    judged = data is not None and "test" in data.splits and mine.algorithm.has_shared_model
    prefix = OWN_MODELS if mine.algorithm.is_personal else CLIENTS
    if stop.watches and not (stop.monitor or "").startswith(prefix):
        missing = f"with test examples, which target and patience look at (or monitor {prefix}accuracy)"
        require(judged, "data", missing, None if data is None else data.name)
        assert data is not None
        column = stop.monitor or default_monitor(mine.algorithm, task, data, ("test",))
        if task.client is None:
            choose("monitor", column, dict.fromkeys(columns(mine.algorithm, task, data, ("test",))))
        stop = replace(stop, monitor=column)
    if stop.watches and stop.monitor:
        require_direction(stop.monitor, task.directions)
    told_by_clients = stop.watches and (stop.monitor or "").startswith(prefix)
    overall = [name for name, _ in task.overall]
    one_each = "a metric with one value for each example: no participant sees all predictions of a split"
    require(not told_by_clients or metric_of(stop.monitor or "") not in overall, "monitor", one_each, stop.monitor)
    for need in mine.algorithm.readings:
        require_direction(f"{need.part}_{need.metric}", task.directions)
    rules = rules or Rules()
    told = about(mine, {**(more or {}), **({"late": rules.late} if rules.late != "dropped" else {})})
    label = label or f"{task.name}, {seed}"
    judged_on = data.fingerprint if judged and data is not None else None
    identity = {"task": task.name, "seed": seed, "label": label, "test data": judged_on, **mine.algorithm.describe()}
    evaluate = evaluation(mine, data) if judged and data is not None else lambda state: {}  # noqa: ARG005
    return Course(mine, rules, stop, evaluate, told, identity, label)


def about(mine: Arithmetic, more: Mapping[str, Any]) -> str:
    """What participants are told of a run."""
    shapes = {name: [list(shape), kind] for name, shape, kind in mine.model_schema.fields}
    told = {"seed": mine.seed, "task": mine.task.name, "algorithm": mine.algorithm.describe(), "model": shapes, **more}
    return json.dumps(told, sort_keys=True)


def about_one(mine: Arithmetic, told: str, number: int, name: str) -> str:
    """Return what one participant is told of a run, from what all are told.

    Raises:
        ArgumentError: the participant has no epochs.
    """
    if isinstance(mine.algorithm.describe().get("epochs", 1), int):
        return told
    return json.dumps({**json.loads(told), "epochs": int(mine.work(number, name).batches.epochs)}, sort_keys=True)


def evaluation(mine: Arithmetic, data: FederatedData) -> Evaluate:
    """How a model does on the server's test examples."""
    task = mine.task
    if task.client is not None:
        return native(mine, data)
    judging = judge(task, mine.plan, store(data, mine.plan.mesh, None))

    def evaluate(state: RoundState) -> dict[str, float]:
        found = judging.evaluate(jax.tree.map(lambda a: a[None], state.variables), "test")
        return {f"test_{name}": float(value[0]) for name, value in found.items()}

    return evaluate


def native(mine: Arithmetic, data: FederatedData) -> Evaluate:
    """The same with clients that have code of their own."""
    station = NativeStation(data, mine.task, [mine.algorithm], [mine.seed])
    rows = np.asarray(data.examples("test"))

    def evaluate(state: RoundState) -> dict[str, float]:
        sent = {name: a[None] for name, a in flatten(state.sent).items()}
        assert mine.task.client is not None
        told = station.broadcast(mine.algorithm, weights_of(sent, 0), 0, 0, 0)
        sums = mine.task.client({"test": station.columns(rows)}).evaluate(told, "test")
        return {f"test_{name}": value / sums["count"] for name, value in sums.items() if name != "count"}

    return evaluate
