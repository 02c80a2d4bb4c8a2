"""Trainer: a participant's local work, compiled as in a simulation, or by code of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.algorithms import Method
from fedloom.clients.client import Client
from fedloom.data.federated import FederatedData
from fedloom.engines.lanes import Total
from fedloom.engines.readings import Worked, measured, readings
from fedloom.engines.station import NativeStation, Station, checked, mean_metric
from fedloom.errors import ArgumentError, DivergedError, require, whole
from fedloom.federation.arithmetic import Arithmetic, arithmetic, told
from fedloom.federation.outbox import Trained
from fedloom.federation.schema import Schema
from fedloom.federation.wire_pb2 import Welcome
from fedloom.local.batches import with_batches
from fedloom.local.epochs import MOST
from fedloom.tasks.task import Task
from fedloom.trees import flatten, member, unflatten

if TYPE_CHECKING:
    from jaxtyping import Array

SHARE = 0.8  # of the time that is left of a round, for training; the rest is for sending the update
Build = Callable[[Mapping[str, Any]], tuple[Task, Method]]
"""What the server says of a run → the task and the algorithm."""
Align = Callable[[Mapping[str, Any], FederatedData], FederatedData]
"""What the server says of a run, and a participant's data → the data as it is used."""


@dataclass(frozen=True)
class Ready:
    """A run that has been made ready for.

    Arguments:
        arithmetic: what is learned and how.
        number: of this participant.
        stops: whether the server takes the work of a participant that had no time for all its steps.
    """

    arithmetic: Arithmetic
    number: int
    stops: bool = False


class LocalTrainer:
    """Trains on the examples of one participant.

    Arguments:
        data: one client's; its training examples, and others to judge models on, if it has any.
        build: what makes the task and the algorithm of what the server says.
        align: what makes the data of what the server says: its classes numbered as the server's, for instance.
        timer: tells the seconds that have passed.
    """

    model_schema: Schema
    update_schema: Schema

    def __init__(
        self,
        data: FederatedData,
        build: Build,
        align: Align = lambda _, data: data,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        require(len(data) == 1, "data", "those of one client", f"{len(data):,} clients")
        self.given = self.data = data
        self.build, self.align, self.timer = build, align, timer
        self.ready: Ready | None = None
        self.pace: float | None = None  # seconds of an optimiser step

    @property
    def examples(self) -> int:
        """How many examples there are to train on."""
        return int(self.data.clients["train"].size[0])

    def prepare(self, welcome: Welcome) -> None:
        """Make ready for a run, if both sides mean the same by it."""
        about = json.loads(welcome.about)
        self.data = self.align(about, self.given)
        task, algorithm = self.build(about)
        mine = arithmetic(task, algorithm, int(about["seed"]))
        agree(about["algorithm"], json.loads(json.dumps(mine.algorithm.describe())), "algorithm")
        if "epochs" in about:
            epochs = about["epochs"]
            whole("epochs", epochs, 1, MOST)
            local = with_batches(mine.algorithm.local, lambda batches: replace(batches, epochs=epochs))
            mine = arithmetic(task, replace(mine.algorithm, local=local), mine.seed)
        shapes = {name: [list(shape), kind] for name, shape, kind in mine.model_schema.fields}
        agree(about["model"], shapes, "model")
        self.model_schema, self.update_schema = mine.model_schema, mine.update_schema
        self.ready = Ready(mine, welcome.number, about.get("late") == "stopped")
        self.pace = None
        self.__dict__.pop("station", None)

    def train(
        self, round: int, model: Mapping[str, np.ndarray], kept: Mapping[str, np.ndarray], seconds: float | None = None
    ) -> Trained:
        """Do the local work of a round; the arguments are those of :class:`fedloom.federation.participant.Trainer`.

        With code of the participant's own, it is done whole, however little time is left.
        """
        assert self.ready is not None
        for need in self.ready.arithmetic.algorithm.readings:
            what = f"with examples for {need.part}, which the weighting looks at"
            require(need.part in self.data.clients, "data", what, "none")
        native = self.ready.arithmetic.task.client is not None
        trained = self._native(round, model) if native else self._compiled(round, model, kept, seconds)
        for name, array in trained.update.items():  # a server would count it against us
            if not np.isfinite(array).all():
                raise DivergedError(f"{name} is not finite after round {round + 1}: the learning rate may be too large")
        return trained

    @cached_property
    def station(self) -> Station:
        """What does the work."""
        assert self.ready is not None
        mine = self.ready.arithmetic
        return Station(self.data, mine.task, [mine.algorithm], [mine.seed], observed=True, first=self.ready.number)

    def _compiled(
        self, round: int, model: Mapping[str, np.ndarray], kept: Mapping[str, np.ndarray], seconds: float | None
    ) -> Trained:
        assert self.ready is not None
        mine, station = self.ready.arithmetic, self.station
        first = mine.first.variables
        sent = told(mine.like.sent, model, first)
        begun = mine.algorithm.local.client_state(first)
        own = unflatten(begun, dict(kept)) if kept else begun
        before = jax.tree.map(lambda a: jnp.asarray(a)[None, None], own) if begun else None
        arrays = {name: a[None] for name, a in flatten(sent).items()}
        me = np.zeros((1, 1), np.int32)
        work = lambda limit: station.work(arrays, round, me, before, None, limit)  # noqa: E731
        (total, keeps, _), steps = self._in_time(work, seconds)
        update = {"update": jax.tree.map(lambda a: a[:, 0], total.update), "aside": total.aside}
        shown = mine.shown({name: a[0] for name, a in flatten(update).items()}, "update.")
        found = self._judged(station, sent, before, total, keeps)
        return Trained(shown, self.examples, *found, flatten(member(member(keeps, 0), 0)) if begun else {}, steps)

    def _in_time(self, work: Callable[[Any], Any], seconds: float | None) -> tuple[Any, int]:
        """Return what comes of local work, and its optimiser steps if there was no time for all of them; else 0.

        The time of a step is that of the last round; in the first one, that of a single step after it was compiled.

        Args:
            work: the work, with the most optimiser steps that are taken; ``None`` is any number.
            seconds: the time that is left of the round.
        """
        assert self.ready is not None
        if not self.ready.stops or seconds is None:
            return work(None), 0
        limit = lambda steps: np.full((1, 1), steps, np.int32)  # noqa: E731
        end = self.timer() + seconds
        if self.pace is None:
            work(limit(1))  # which compiles
            begun = self.timer()
            work(limit(1))
            self.pace = self.timer() - begun
        begun = self.timer()
        batches = self.ready.arithmetic.algorithm.local.batches
        every = int(np.sum(batches.moves(np.array([self.examples]))))
        steps = int(np.clip(SHARE * (end - begun) / max(self.pace, 1e-9), 1, every))
        found, took = work(limit(steps)), self.timer() - begun
        self.pace = took / steps if took > 0 else self.pace
        return found, steps if steps < every else 0

    def _judged(
        self, station: Station, sent: Any, before: Any, total: Total, keeps: Any
    ) -> tuple[dict[str, float], dict[str, float]]:
        """What the weighting looks at, and how the model that was sent does on one's own test examples."""
        assert self.ready is not None
        mine, me = self.ready.arithmetic, np.zeros((1, 1), np.int32)
        needs = mine.algorithm.readings
        lead = jax.tree.map(lambda a: jnp.asarray(a)[None], sent.variables)
        worked = Worked(station.algorithm.local, lead, before or {}, total.update, keeps)
        views = {need.part: station.store.view(me, need.part) for need in needs}
        read = _read(mine.task, station.plan, needs, views, worked, me) if needs else {}
        part = next((part for part in ("test", "validation") if part in self.data.clients), None)
        count = int(self.data.clients[part].size[0]) if part else 0
        if part is None or not count:
            return {name: float(a[0, 0]) for name, a in read.items()}, {}
        seen = _seen(mine.task, station.plan, station.store.view(me, part), worked, me)
        sums = {name: float(a[0, 0]) * count for name, a in seen.items()} | {"count": float(count)}
        finite = {name: value for name, value in sums.items() if np.isfinite(value)}
        return {name: float(a[0, 0]) for name, a in read.items()}, finite

    def _native(self, round: int, model: Mapping[str, np.ndarray]) -> Trained:
        """By the participant's own code."""
        assert self.ready is not None
        mine = self.ready.arithmetic
        lead = "variables.params."
        weights = {name.removeprefix(lead): np.asarray(a) for name, a in model.items() if name.startswith(lead)}
        station = NativeStation(self.data, mine.task, [mine.algorithm], [mine.seed])
        broadcast = station.broadcast(mine.algorithm, weights, 0, round, self.ready.number)
        client: Client = station.client(0)
        found = checked(client.fit(broadcast), weights, "this client", mine.algorithm)
        update = {f"update.params.{name}": after - weights[name] for name, after in found.items()}
        read = {}
        for need in mine.algorithm.readings:
            sums = client.evaluate(replace(broadcast, weights=found if need.moment == "after" else weights), need.part)
            read[need.name] = mean_metric(sums, need.metric, "this client")
        part = next((part for part in ("test", "validation") if part in self.data.clients), None)
        measures = client.evaluate(broadcast, part) if part else {}
        return Trained(update, self.examples, read, {n: float(v) for n, v in measures.items()}, {})


def agree(there: Mapping[str, Any], here: Mapping[str, Any], what: str) -> None:
    """Raise an :class:`ArgumentError` unless both sides mean the same."""
    for name in {**there, **here}:
        if there.get(name) != here.get(name):
            raise ArgumentError(f"{what}: {name}", f"the server's ({there.get(name)!r})", here.get(name))


@partial(jax.jit, static_argnames=("task", "plan", "needs"))
def _read(task: Task, plan: Any, needs: Any, views: Any, worked: Worked, cohort: Array) -> dict[str, Array]:
    return readings(task, plan, needs, views, worked, cohort)


@partial(jax.jit, static_argnames=("task", "plan"))
def _seen(task: Task, plan: Any, view: Any, worked: Worked, cohort: Array) -> dict[str, Array]:
    return measured(task, plan, view, worked, cohort, "before")
