"""Ranks: one run over MPI, as each of its ranks sees it, from rank 0's order to the last checkpoint.

Every rank does the same: it prepares what the order says, trains its workers between meetings, and keeps checkpoints of
its own. At a meeting all ranks tell rank 0 how their workers fare, and rank 0 says whether to go on; so at a meeting
everybody has done the same rounds. All keep the last two meetings in mind: whatever happens, all have one of the two.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fedloom.runs.checkpoint as checkpoint
from fedloom.data.checksum import json_content
from fedloom.engines.mailbox import Mailbox
from fedloom.errors import CheckpointError, FedloomError
from fedloom.runs.history import History, from_rows
from fedloom.runs.interrupt import interruptible
from fedloom.runs.lock import alone
from fedloom.runs.order import Order, Prepared, Refused, prepared
from fedloom.runs.ownership import whose
from fedloom.runs.record import DIVERGED, FINISHED, INTERRUPTED, RUNNING, Record, from_json
from fedloom.runs.recorder import Recorder
from fedloom.runs.restore import difference
from fedloom.runs.result import WORKERS, Run, write_history, write_model
from fedloom.runs.resumption import check_resumption
from fedloom.runs.tally import Report, counters, report, row, statistics

EXPERIMENT, ORDER, LEAVING = "experiment.toml", "peers.json", "leaving"
RESUMABLE = "interrupted; it can be resumed"
LINGER = 10.0  # seconds that a rank which leaves waits for others to save and leave too
Watch = Callable[[History, list[dict[str, Any]]], None]


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
        self.workers = list[dict[str, Any]]()
        self.verdict = ""
        self.held = ExitStack()  # the folder, at rank 0
        self.began = time.perf_counter()

    @property
    def own(self) -> Path:
        """Where this rank keeps its checkpoints."""
        return self.folder / f"rank-{self.world.rank}"

    def run(self) -> Run | None:
        """Attend until the run has stopped; at rank 0 what came of it."""
        with self.held:
            return self.attend()

    def attend(self) -> Run | None:
        """The same, in a folder in which nobody else works."""
        self.prepare()
        round, verdict = self.begin()
        with interruptible() as asked:
            if round == 0 and verdict is None:
                verdict = self.meet(0, asked())
            while verdict is None:
                ahead = self.next(round)
                self.exchange.advance(round, ahead - round)
                round, verdict = ahead, self.meet(ahead, asked())
                if (verdict is not None or round % self.order.save_every == 0) and not diverged(verdict):
                    self.save(self.own, self.moments[-1])
        self.verdict = verdict
        return self.finish(round)

    def prepare(self) -> None:
        """Prepare, and go on only if all ranks could; find the newest round that all ranks have kept."""
        trouble, found = None, dict[int, checkpoint.Checkpoint]()
        try:
            self.prepared: Prepared = prepared(self.order, self.mailbox)
            if self.world.rank == 0:
                self.held.enter_context(alone(self.folder))
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
        self.exchange = self.prepared.exchange
        stop = replace(self.prepared.settings.stop, rounds=self.prepared.rounds)
        self.recorder = Recorder(History(better=self.prepared.directions), stop)
        self.stored = found[start[1]] if start[1] is not None else None

    def kept(self) -> dict[int, checkpoint.Checkpoint]:
        """Round → what this rank has kept of it; a :class:`CheckpointError` if it is of another run."""
        if checkpoint.exists(self.folder):
            raise CheckpointError(f"{self.folder} holds a run of one process: choose another folder")
        found = [*checkpoint.kept(self.own), *checkpoint.kept(self.own / LEAVING)]
        stop = replace(self.prepared.settings.stop, rounds=self.prepared.rounds)
        settings = replace(self.prepared.settings, stop=stop)
        for one in found:
            if was := difference(one.about["identity"], self.prepared.identity):
                raise CheckpointError(f"{self.folder} holds another run ({was}): choose another folder")
            check_resumption(self.folder, from_json(one.about), self.prepared.label, settings)
        return {int(one.about["round"]): one for one in found}

    def begin(self) -> tuple[int, str | None]:
        """The round to go on from, and why not, if the run had stopped."""
        if self.world.rank == 0:
            checkpoint.write_text(self.folder / EXPERIMENT, self.prepared.experiment.to_toml())
            among = {"ranks": self.world.size, "workers": len(self.exchange.owner)}
            self.note(ORDER, {**asdict(self.order), **among})
        round = 0
        if self.stored is not None:
            about, exchange = self.stored.about, self.exchange
            round = int(about["round"])
            exchange.restore(self.stored.part(checkpoint.LAST))
            for name, into in counters(self.prepared).items():
                into.update({int(worker): value for worker, value in about["spent"][name].items()})
            history, self.workers = from_rows(about["rows"], self.prepared.directions), about["workers"]
            self.recorder = replace(self.recorder, history=history)
            self.moments.append(Moment(round, exchange.arrays(), about))
            self.began -= history.last("seconds") if len(history) else 0.0
        verdict = self.told("begin", lambda: self.recorder.decide().reason or None)
        return round, verdict

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
        return min((round // every + 1) * every, (round // save + 1) * save, self.recorder.stop.rounds)

    def meet(self, round: int, asked: bool) -> str | None:
        """Tell rank 0 how this rank's workers fare; why the run stops, if it does."""
        mine = report(self.prepared, round, asked)
        if self.world.rank:
            self.moments.append(self.moment(round))
            self.mailbox.tell(0, "met", mine)
            return self.told("verdict", lambda: None)
        reports = [mine, *self.mailbox.hear("met", self.world.others)]
        verdict = self.judged(round, reports) if self.prepared.evaluates(round) else None
        if verdict is None and any(one.asked for one in reports):
            verdict = RESUMABLE
        self.moments.append(self.moment(round))
        return self.told("verdict", lambda: verdict)

    def judged(self, round: int, reports: list[Report]) -> str | None:
        """Add a row to the history; why the run stops, if it does."""
        fresh = row(self.prepared, self.recorder, round, reports, self.began)
        self.recorder, decision = self.recorder.add(fresh)
        self.workers = statistics(self.prepared, round, reports)
        if self.watch:
            self.watch(decision.shown, self.workers)
        return f"{DIVERGED}: {decision.reason}" if decision.has_diverged else decision.reason or None

    def moment(self, round: int) -> Moment:
        """What this rank has now."""
        spent = {name: {str(w): n for w, n in counted.items()} for name, counted in counters(self.prepared).items()}
        owned = whose(self.exchange.rank.algorithm, self.exchange.rank.first, len(self.prepared.data))
        settings = self.prepared.settings.recorded()
        record = Record(self.prepared.label, self.recorder.history, round, RUNNING, **owned, settings=settings,
                        identity=self.prepared.identity, monitor=self.prepared.settings.monitored)  # fmt: skip
        about = {"workers": self.workers, "spent": spent, **record.as_json()}
        return Moment(round, self.exchange.arrays(), about)

    def save(self, folder: Path, moment: Moment, status: str = RUNNING, stopped: str = "") -> None:
        """Write a checkpoint, and at rank 0 the history."""
        checkpoint.write(folder, checkpoint.Checkpoint.of({checkpoint.LAST: moment.arrays}, moment.about))
        if self.world.rank == 0:
            write_history(self.folder, replace(from_json(moment.about), status=status, stopped=stopped))
            self.note(WORKERS, {"workers": moment.about["workers"]})

    def note(self, name: str, values: Mapping[str, Any]) -> None:
        """Write something as JSON."""
        checkpoint.write_bytes(self.folder / name, json_content(values))

    def finish(self, round: int) -> Run | None:
        """Bring the models to rank 0, which writes them; a diverged run ends at the meeting before."""
        status = standing(self.verdict)
        moment = self.moments[0 if status == DIVERGED else -1]
        if status == DIVERGED:
            self.exchange.restore(moment.arrays)
        found = self.exchange.gathered(round)
        self.mailbox.close()
        if found is None:
            return None
        variables, told = jax.tree.map(np.asarray, found), from_json(moment.about)
        told = replace(told, status=status, stopped=self.verdict)
        write_model(self.folder, told, variables)
        write_history(self.folder, told)
        identity = self.prepared.identity
        return Run(told.label, told.history, variables, self.verdict, status, self.folder, identity=identity,
                   models=told.models, own_layers=told.own_layers, monitor=told.monitor)  # fmt: skip

    def leave(self, reason: str) -> str:
        """Save what this rank has of the last meetings, tell the others why it leaves, and wait a little until they
        have done the same; how to go on.
        """
        for moment in list(self.moments):
            self.save(self.own / LEAVING, moment, INTERRUPTED, f"interrupted: {reason}")
        self.mailbox.leave(reason, min(LINGER, self.mailbox.timeout))
        kept = f"round {self.moments[-1].round} is saved" if self.moments else "nothing was done yet"
        return f"{kept}; go on with the same command and --out {self.folder}"


def standing(verdict: str) -> str:
    """Return the status that a verdict means."""
    if verdict == RESUMABLE:
        return INTERRUPTED
    return DIVERGED if diverged(verdict) else FINISHED


def diverged(verdict: str | None) -> bool:
    """Whether a run stops because its numbers ceased to be numbers."""
    return verdict is not None and verdict.startswith(DIVERGED)
