"""Ranks: one run over MPI, from rank 0's order to the last checkpoint.

Every rank does the same: it prepares what the order says, trains its workers between meetings, and keeps checkpoints of
its own. At a meeting all ranks tell rank 0 how their workers fare, and rank 0 says whether to go on; so at a meeting
everybody has done the same rounds. All keep the last two meetings in mind: whatever happens, there is one that everybody
has.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fedloom.runs.checkpoint as checkpoint
import fedloom.runs.model as model
from fedloom.algorithms import Algorithm, Method, MultiTask, Personalised
from fedloom.data import FederatedData
from fedloom.engines.exchange import SERVER, Along, Exchange, Served
from fedloom.engines.mailbox import Mailbox
from fedloom.engines.rank import rank
from fedloom.engines.store import GLOBAL
from fedloom.engines.world import owners
from fedloom.errors import CheckpointError, FedloomError, require
from fedloom.mixing import Gossip, Topology, identity
from fedloom.runs.checks import check
from fedloom.runs.experiment import Experiment
from fedloom.runs.history import History, from_rows
from fedloom.runs.prepare import federated
from fedloom.runs.runner import HISTORY, MODEL, Run, interruptible
from fedloom.runs.runner import identity as identified
from fedloom.runs.selection import lasts, roster
from fedloom.tasks import Task
from fedloom.trees import stack

EXPERIMENT, ORDER, WORKERS, LEAVING = "experiment.toml", "peers.json", "workers.json", "leaving"
INTERRUPTED, DIVERGED = "interrupted; it can be resumed", "diverged"
LINGER = 10.0  # seconds that a rank which leaves waits for others to save and leave too
Watch = Callable[[History, list[dict[str, Any]]], None]


class Refused(FedloomError):
    """An order that cannot be carried out; all ranks know why."""


@dataclass(frozen=True)
class Order:
    """What all ranks are told to do.

    Arguments:
        experiment: as TOML.
        folder: where the run is kept.
        selection, workers: see :mod:`fedloom.runs.selection`; one worker a user where it is not said how many.
        save_every: rounds between checkpoints.
        delays: seconds by which the models of each rank are held back, in turn.
        data_folder: where data sets are.
    """

    experiment: str
    folder: str
    selection: str = "all"
    workers: int | None = None
    save_every: int = 10
    delays: tuple[float, ...] = (0.0,)
    data_folder: str | None = None

    def __post_init__(self) -> None:
        require(self.save_every >= 1, "save_every", "at least 1", self.save_every)


def dispatched(mailbox: Mailbox, write: Callable[[], Order]) -> Order:
    """The order, which rank 0 writes and all others are sent."""
    if mailbox.world.rank:
        [(order, trouble)] = mailbox.hear("order", [0])
    else:
        order, trouble = None, None
        try:
            order = write()
        except (FedloomError, OSError) as error:
            trouble = str(error)
        mailbox.tell(mailbox.world.others, "order", (order, trouble))
    if trouble is not None:
        raise Refused(trouble)
    assert order is not None
    return order


@dataclass(frozen=True)
class Prepared:
    """What every rank makes of an order for itself."""

    experiment: Experiment
    data: FederatedData
    task: Task
    exchange: Exchange
    rounds: int
    about: dict[str, Any]


def prepared(order: Order, mailbox: Mailbox) -> Prepared:
    """An order, prepared; or an :class:`ArgumentError` before anything is computed."""
    experiment = Experiment.from_toml(order.experiment)
    require(experiment.users == "no", "users", "no: what workers do is measured anyway", experiment.users)
    data = federated(experiment, Path(order.data_folder) if order.data_folder else None)
    for split in experiment.splits:
        require(split in data.splits, "evaluate", f"of the parts that the data has, {', '.join(data.splits)}", split)
    workers = order.workers if order.workers is not None else len(data)
    require(workers < SERVER, "workers", f"fewer than {SERVER:,}", workers)
    owner = owners(workers, mailbox.world.size)
    task, algorithm = experiment.build_task(data), experiment.build_algorithm().sized(workers)
    supported(algorithm, task)
    check(algorithm, task, data)
    sizes = data.clients["train"].size
    users = roster(order.selection, sizes, workers, min(workers, algorithm.cohort(len(data))), experiment.seed)
    mailbox.delay, mailbox.owner = order.delays[mailbox.world.rank % len(order.delays)], owner.tolist()
    way = Served if isinstance(algorithm, Algorithm) else Along
    exchange = way(rank(data, task, algorithm, workers, experiment.seed), mailbox, owner, users)
    among = {"ranks": mailbox.world.size, "workers": workers, "selection": order.selection}
    about = {**identified(data, task, algorithm, experiment.seed), **among}
    return Prepared(experiment, data, task, exchange, lasts(order.selection, len(data), workers, experiment.rounds), about)


def supported(algorithm: Method, task: Task) -> None:
    """Raise an :class:`ArgumentError` unless ranks can do it: what they send each other is models, and nothing else."""
    first = jax.eval_shape(lambda: task.init(jax.random.key(0)))
    if isinstance(algorithm, Algorithm):
        beside = [*jax.eval_shape(algorithm.local.keeps, first), *jax.eval_shape(algorithm.local.tells, first)]
        able = algorithm.weighting.alone and not algorithm.personal and not beside
    else:
        mixes = isinstance(algorithm, Personalised) and not isinstance(algorithm, MultiTask)
        able = mixes and isinstance(algorithm.mixer, Gossip | Topology | type(identity))
    what = "dpa-sgd, local, fedavg, fedsgd or fedprox, weighted by size or uniform, over MPI (fedloom run knows them all)"
    told = algorithm.describe()
    require(able, "algorithm", what, told.get("work") or told.get("mixing") or told.get("weighting"))


@dataclass(frozen=True)
class Moment:
    """What a rank has at a meeting."""

    round: int
    arrays: dict[str, np.ndarray]
    about: dict[str, Any]


class Attendance:
    """A run under way, as one rank sees it."""

    def __init__(self, mailbox: Mailbox, order: Order, watch: Watch | None = None) -> None:
        self.mailbox, self.world, self.order, self.watch = mailbox, mailbox.world, order, watch
        self.folder = Path(order.folder)
        self.moments: deque[Moment] = deque(maxlen=2)
        self.history, self.workers = History(), list[dict[str, Any]]()
        self.verdict = ""
        self.began = time.perf_counter()

    @property
    def own(self) -> Path:
        """Where this rank keeps its checkpoints."""
        return self.folder / f"rank-{self.world.rank}"

    def run(self) -> Run | None:
        """Attend until the run has stopped; at rank 0 what came of it."""
        self.prepare()
        round, verdict = self.begin()
        with interruptible() as asked:
            if round == 0 and verdict is None:
                verdict = self.meet(0, asked())
            while verdict is None:
                ahead = self.next(round)
                self.exchange.advance(round, ahead - round)
                round, verdict = ahead, self.meet(ahead, asked())
                if verdict is not None or round % self.order.save_every == 0:
                    self.save(self.own, self.moments[-1])
        self.verdict = verdict
        return self.finish(round)

    def prepare(self) -> None:
        """Prepare, and go on only if all ranks could; find the newest round that all ranks have kept."""
        trouble, found = None, dict[int, checkpoint.Checkpoint]()
        try:
            self.prepared = prepared(self.order, self.mailbox)
            found = self.kept()
        except (FedloomError, OSError) as error:
            trouble = str(error)
        if self.world.rank == 0:
            told = [(trouble, sorted(found)), *self.mailbox.hear("ready", self.world.others)]
            troubles = [one if one == told[0][0] else f"rank {r}: {one}" for r, (one, _) in enumerate(told) if one]
            common = set.intersection(*(set(rounds) for _, rounds in told))
            start = (troubles[0] if troubles else None, max(common, default=None))
            self.mailbox.tell(self.world.others, "start", start)
        else:
            self.mailbox.tell(0, "ready", (trouble, sorted(found)))
            [start] = self.mailbox.hear("start", [0], patience=1.5)
        if start[0]:
            raise Refused(start[0])
        self.exchange, self.stop = self.prepared.exchange, self.prepared.experiment.stop()
        self.stop = replace(self.stop, rounds=self.prepared.rounds)
        self.stored = found[start[1]] if start[1] is not None else None

    def kept(self) -> dict[int, checkpoint.Checkpoint]:
        """Round → what this rank has kept of it; a :class:`CheckpointError` if it is of another run."""
        if (self.folder / checkpoint.NAME).exists():
            raise CheckpointError(f"{self.folder} holds a run of one process: choose another folder")
        found = [*checkpoint.kept(self.own), *checkpoint.kept(self.own / LEAVING)]
        for one in found:
            there, here = one.about["identity"], self.prepared.about
            differs = [name for name in {**here, **there} if there.get(name) != here.get(name)]
            if differs:
                was = ", ".join(f"{name} = {there.get(name)!r} there, {here.get(name)!r} here" for name in differs)
                raise CheckpointError(f"{self.folder} holds another run ({was}): choose another folder")
        return {int(one.about["round"]): one for one in found}

    def begin(self) -> tuple[int, str | None]:
        """The round to go on from, and why not, if the run had stopped."""
        if self.world.rank == 0:
            checkpoint.write_text(self.folder / EXPERIMENT, self.prepared.experiment.to_toml())
            among = {"ranks": self.world.size, "workers": len(self.exchange.owner)}
            checkpoint.write_text(self.folder / ORDER, json.dumps({**asdict(self.order), **among}, indent=1) + "\n")
        round = 0
        if self.stored is not None:
            about, exchange = self.stored.about, self.exchange
            round = int(about["round"])
            exchange.restore(self.stored.arrays)
            for name, into in self.counters().items():
                into.update({int(worker): value for worker, value in about["spent"][name].items()})
            self.history, self.workers = from_rows(about["rows"]), about["workers"]
            self.moments.append(Moment(round, exchange.arrays(), about))
            self.began -= self.history.last("seconds") if len(self.history) else 0.0
        verdict = self.told("begin", lambda: self.stop.reason(self.history) if len(self.history) else None)
        return round, verdict

    def counters(self) -> dict[str, Counter[int]]:
        """What is counted of each worker of this rank."""
        return {"training": self.exchange.trained, "waiting": self.exchange.waited, "sent": self.mailbox.sent}

    def told(self, kind: str, decide: Callable[[], str | None]) -> str | None:
        """What rank 0 decides."""
        if self.world.rank:
            verdict: str | None = self.mailbox.hear(kind, [0], patience=1.5)[0]
            return verdict
        verdict = decide()
        self.mailbox.tell(self.world.others, kind, verdict)
        return verdict

    def next(self, round: int) -> int:
        """The round of the next meeting."""
        every, save = self.prepared.experiment.every, self.order.save_every
        return min((round // every + 1) * every, (round // save + 1) * save, self.stop.rounds)

    def evaluates(self, round: int) -> bool:
        """Whether workers are measured after a round."""
        return round % self.prepared.experiment.every == 0 or round == self.stop.rounds

    def meet(self, round: int, asked: bool) -> str | None:
        """Tell rank 0 how this rank's workers fare; why the run stops, if it does."""
        report = self.report(round) | {"asked": asked}
        if self.world.rank:
            self.moments.append(self.moment(round))
            self.mailbox.tell(0, "met", report)
            return self.told("verdict", lambda: None)
        reports = [report, *self.mailbox.hear("met", self.world.others)]
        verdict = self.judged(round, reports) if self.evaluates(round) else None
        if verdict is None and any(one["asked"] for one in reports):
            verdict = INTERRUPTED
        self.moments.append(self.moment(round))
        return self.told("verdict", lambda: verdict)

    def report(self, round: int) -> dict[str, Any]:
        """How this rank's workers fare."""
        spent = {name: dict(counted) for name, counted in self.counters().items()}
        measured = self.measured(round) if self.evaluates(round) else {}
        return {"spent": spent, "measured": measured, "squares": sum(self.exchange.squares.values())}

    def measured(self, round: int) -> dict[str, dict[int, dict[str, float]]]:
        """Part → worker → metric → its sum over the worker's examples of the part, or over those that are nobody's."""
        data, exchange = self.prepared.data, self.exchange
        users = self.users(round)
        theirs = [int(users[worker]) for worker in exchange.mine if users[worker] >= 0]
        shared = [GLOBAL] if "test" in data.clients and "test" in data.splits else []
        found: dict[str, dict[int, dict[str, float]]] = {}
        for part in [*self.prepared.experiment.splits, *shared]:
            own = part in data.clients
            view = exchange.rank.view(theirs if own else [], part)
            one_model = isinstance(exchange, Served) and not own  # rank 0 is enough
            those = exchange.mine if not one_model else [0] if self.world.rank == 0 else []
            found[part] = {
                worker: exchange.rank.judge(view, int(users[worker]) if own else 0, exchange.models[worker])
                for worker in those
                if users[worker] >= 0 or not own
            }
        return found

    def users(self, round: int) -> np.ndarray:
        """The user of each worker in the last round."""
        if self.order.selection == "all":
            return np.arange(len(self.exchange.owner))
        return self.exchange.roster(max(0, round - 1))

    def judged(self, round: int, reports: list[dict[str, Any]]) -> str | None:
        """Add a row to the history; why the run stops, if it does."""
        before = self.history
        self.history += {**self.costs(round, reports), **self.metrics(reports)}
        self.workers = self.statistics(round, reports)
        if self.watch:
            self.watch(self.history, self.workers)
        row = self.history.rows[-1]
        broken = [name for name, value in row.items() if not math.isfinite(value)]
        if broken:
            self.history = before
            return f"{DIVERGED}: {broken[0].replace('_', ' ')} is {row[broken[0]]} after round {round}"
        return self.stop.reason(self.history)

    def costs(self, round: int, reports: list[dict[str, Any]]) -> dict[str, float]:
        """What the run has cost so far, counted as a simulation counts it."""
        exchange, size = self.exchange, self.prepared.data.clients["train"].size
        last = self.history.rows[-1] if len(self.history) else {"round": 0, "steps": 0, "bytes_up": 0, "bytes_down": 0}
        rounds, local = range(int(last["round"]), round), exchange.rank.algorithm.local
        users = [exchange.roster(one) for one in rounds]
        steps = sum(int(np.sum(local.steps(size[who[who >= 0]], exchange.rank.plan.rows))) for who in users)
        moved = sum(exchange.moved(one) for one in rounds) * next(iter(exchange.models.values())).nbytes
        squares = sum(one["squares"] for one in reports)
        norm = exchange.norm if isinstance(exchange, Served) else (squares / len(exchange.owner)) ** 0.5
        return {
            "round": round,
            "steps": last["steps"] + steps,
            "bytes_up": last["bytes_up"] + moved,
            "bytes_down": last["bytes_down"] + moved,
            "update_norm": norm,
            "seconds": time.perf_counter() - self.began,
        }

    def metrics(self, reports: list[dict[str, Any]]) -> dict[str, float]:
        """Each metric of each part, over all workers' examples."""
        found = {}
        for split in self.prepared.experiment.splits:
            sums = Counter[str]()
            for report in reports:
                for one in report["measured"][split].values():
                    sums.update(one)  # type: ignore[arg-type]
            found |= {f"{split}_{name}": value / sums["count"] for name, value in sums.items() if name != "count"}
        return found

    def statistics(self, round: int, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """How each worker fares: on its own examples and on all test examples, and what it has spent."""
        users, table = self.users(round), []
        for worker, owner in enumerate(self.exchange.owner.tolist()):
            report = reports[owner]
            row: dict[str, Any] = {"worker": worker, "rank": owner, "user": int(users[worker])}
            for part, workers in report["measured"].items():
                one = workers.get(worker, {})
                shown = "shared_test" if part == GLOBAL or part not in self.prepared.data.clients else part
                row |= {f"{shown}_{name}": value / one["count"] for name, value in one.items() if name != "count"}
            row |= {name: counted.get(worker, 0) for name, counted in report["spent"].items()}
            table.append(row)
        return table

    def moment(self, round: int) -> Moment:
        """What this rank has now."""
        spent = {name: {str(w): n for w, n in counted.items()} for name, counted in self.counters().items()}
        rows = [dict(row) for row in self.history.rows]
        about = {"identity": self.prepared.about, "round": round, "rows": rows, "workers": self.workers, "spent": spent}
        return Moment(round, self.exchange.arrays(), about)

    def save(self, folder: Path, moment: Moment) -> None:
        """Write a checkpoint, and at rank 0 the history."""
        checkpoint.write(folder, checkpoint.Checkpoint(moment.arrays, moment.about))
        if self.world.rank == 0:
            history = {"label": self.label, "rows": moment.about["rows"]}
            checkpoint.write_text(self.folder / HISTORY, json.dumps(history, indent=1) + "\n")
            checkpoint.write_text(self.folder / WORKERS, json.dumps(moment.about["workers"], indent=1) + "\n")

    @property
    def label(self) -> str:
        """What the run is called."""
        return f"{self.prepared.experiment.model}, {self.prepared.data.name}, {self.world.size} ranks"

    def finish(self, round: int) -> Run | None:
        """Bring all models to rank 0, which keeps them."""
        exchange, address = self.exchange, lambda worker: (round + 1, worker)
        away = [] if isinstance(exchange, Served) else np.flatnonzero(exchange.owner != 0).tolist()
        if self.world.rank:
            for worker in set(away) & set(exchange.mine):
                self.mailbox.post(exchange.models[worker], 0, address(worker))
            self.mailbox.close()
            return None
        models = dict(exchange.models)
        for worker in away:
            self.mailbox.expect(int(exchange.owner[worker]), address(worker), np.empty_like(models[0]))
        models |= {worker: flat for (_, worker), flat in self.mailbox.take([address(worker) for worker in away]).items()}
        self.mailbox.close()
        whole = [exchange.rank.whole(models[worker]) for worker in range(len(exchange.owner))]
        variables = jax.tree.map(np.asarray, whole[0] if isinstance(exchange, Served) else stack(whole))
        model.save(self.folder / MODEL, variables)
        diverged = self.verdict.startswith(DIVERGED)
        return Run(self.label, self.history, variables, self.verdict, diverged, self.folder)

    def leave(self, reason: str) -> str:
        """Save what this rank has of the last meetings, tell the others why it leaves, and wait a little until they have
        done the same; how to go on.
        """
        for moment in list(self.moments):
            self.save(self.own / LEAVING, moment)
        self.mailbox.leave(reason, min(LINGER, self.mailbox.timeout))
        kept = f"round {self.moments[-1].round} is saved" if self.moments else "nothing was done yet"
        return f"{kept}; go on with the same command and --out {self.folder}"
