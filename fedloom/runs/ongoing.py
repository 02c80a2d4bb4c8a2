"""Ongoing: experiments under way in one program: advance, evaluate, record, save, and take leave."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

import fedloom.runs.checkpoint as checkpoint
from fedloom.algorithms import Method, ServerState
from fedloom.data.checksum import json_content
from fedloom.engines import Program
from fedloom.engines.clock import Passed, exact_sum, nothing
from fedloom.engines.program import Rounds, clients_of
from fedloom.runs.history import History, Row
from fedloom.runs.interrupt import interruptible
from fedloom.runs.ownership import owned, whose
from fedloom.runs.record import DIVERGED, FINISHED, INTERRUPTED, RUNNING, Record
from fedloom.runs.restore import Identity
from fedloom.runs.result import WORKERS, Run, write_history, write_model
from fedloom.runs.settings import Settings
from fedloom.runs.users import Users, present, summary
from fedloom.trees import flatten, member, stack

Watch = Callable[[Sequence[History]], None]
Race = Callable[[Sequence[History]], Collection[int]]
"""Histories → which of the experiments need not go on."""
COMPILING = 15.0  # seconds that another program may take to compile


class Ongoing:
    """Experiments under way in one program."""

    def __init__(
        self,
        program: Program,
        rebuild: Callable[[Sequence[int]], Program],
        settings: Settings,
        folders: list[Path | None],
        identities: list[Identity],
        labels: list[str],
        algorithms: Sequence[Method],
        histories: list[History],
    ) -> None:
        self.program, self.rebuild, self.settings, self.folders = program, rebuild, settings, folders
        self.identities, self.labels, self.algorithms, self.histories = identities, labels, algorithms, histories
        self.watch: Watch | None = None
        self.race: Race | None = None
        self.users = [Users() for _ in histories]
        self.best: list[ServerState | None] = [None] * len(histories)  # the state after the best round, if it is kept
        self.finished: dict[int, Run] = {}
        self.inside = list(range(len(histories)))  # the experiments that the program computes, in its order
        before = max((h.last("seconds") for h in histories if len(h)), default=0.0)
        self.began = time.perf_counter() - before
        self.saved = -math.inf  # the first rounds are saved at once
        self.passed = [self.until(i) for i in range(len(histories))]
        self.took = list[float]()  # seconds of each turn of the program's loop; the first one compiles

    def run(self, state: ServerState) -> list[Run]:
        """Advance, evaluate and record until every experiment has stopped."""
        if not len(self.histories[0]):
            self.record(state, None)
        self.settle(state)
        with interruptible() as interrupted:
            while self.active and not interrupted() and time.perf_counter() < self.settings.until:
                before, start = state, time.perf_counter()
                now = int(np.max(np.asarray(state.round)))
                every = self.settings.every  # whenever it began, it is evaluated in the rounds of a run left alone
                rounds = min(every - now % every, self.settings.stop.rounds - now)
                state, did = self.program.advance(state, now, rounds)
                self.record(state, did)
                self.settle(state, before)
                self.took.append(time.perf_counter() - start)
                state = self.shrink(state, now + rounds)
                if time.perf_counter() - self.saved > self.settings.save_seconds:
                    self.save(state)
        for i in self.active:
            self.finish(i, self.of(state, i), INTERRUPTED, "interrupted; it can be resumed")
        return [self.finished[i] for i in range(len(self.histories))]

    def until(self, i: int) -> Passed:
        """What has passed by the clock in the rounds that an experiment has done."""
        begun, rounds = (
            nothing(len(self.program.data)),
            int(self.histories[i].last("round")) if self.histories[i] else 0,
        )
        return self.program.passed(begun, 0, rounds, self.inside.index(i)) if self.program.clock else begun

    @property
    def active(self) -> list[int]:
        """The experiments that have not stopped."""
        return [i for i in range(len(self.histories)) if i not in self.finished]

    def of(self, state: ServerState, i: int) -> ServerState:
        """The state of one experiment."""
        mine: ServerState = member(state, self.inside.index(i))
        return mine

    def shrink(self, state: ServerState, now: int) -> ServerState:
        """Go on in a smaller program if that saves more than compiling it costs."""
        gone = 1 - len(self.active) / len(self.inside)
        turns = (self.settings.stop.rounds - now) / self.settings.every
        if gone < 0.5 or not self.active or gone * min(self.took[1:], default=0.0) * turns < COMPILING:
            return state
        kept = stack([self.of(state, i) for i in self.active])
        self.inside = self.active
        self.program.close()  # its workers make room
        self.program, self.took = self.rebuild(self.inside), []
        return self.program.place(kept)

    def record(self, state: ServerState, did: Rounds | None) -> None:
        """Evaluate, and add a row to every history that goes on."""
        parts = [self.program.evaluate(state, split) for split in self.settings.evaluated]
        measured = {name: values for part in parts for name, values in part.items()}
        others = self.program.measures(state, self.settings.evaluated)
        seconds = time.perf_counter() - self.began
        for i in self.active:
            history, at = self.histories[i], self.inside.index(i)
            metrics = {name: float(values[at]) for name, values in measured.items()}
            row = {**costs(self.program, state, did, history, at), "seconds": seconds, **metrics}
            row |= {name: float(values[at]) for name, values in others.items()}
            if self.program.clock:
                row |= self.pass_time(i, int(row["round"]))
            if did is not None and did.users:
                each = present(clients_of(self.program, did, at), self.program.m)
                everybody = len(self.program.data)
                self.users[i] += {"round": np.int64(row["round"]), "all_clients": np.int64(everybody), **each}
                row |= {**summary(each, self.program.task.directions), "users_all": everybody}
            self.histories[i] = history + row
        if self.watch:
            self.watch(self.histories)

    def best_row(self, i: int) -> Row | None:
        """Return the row of the round whose model is kept because it is the best; ``None`` if the last one is kept."""
        stop = self.settings.stop
        return self.histories[i].best_row(stop.monitor) if stop.keeps_best and stop.monitor else None

    def pass_time(self, i: int, now: int) -> dict[str, float]:
        """Let the clock go on to a round, and read it: seconds, and bytes in all and through the busiest link."""
        done = int(self.histories[i].last("round")) if self.histories[i] else 0
        self.passed[i] = passed = self.program.passed(self.passed[i], done, now - done, self.inside.index(i))
        down = exact_sum(passed.down) if self.program.down else 0  # what peers send is not sent once more
        sent = {"bytes_up": exact_sum(passed.up), "bytes_down": down}
        return {"clock": passed.now, **sent, "busiest_bytes": int((passed.up + passed.down).max())}

    def settle(self, state: ServerState, before: ServerState | None = None) -> None:
        """Take leave of the experiments that have stopped."""
        for i in self.active:
            row = self.histories[i].rows[-1]
            broken = [name for name, value in row.items() if not math.isfinite(value)]
            if broken and before is not None:
                self.diverge(i, self.of(before, i), broken[0])
                continue
            if self.best_row(i) is row:
                self.best[i] = jax.tree.map(np.array, self.of(state, i))
            if reason := self.settings.stop.reason(self.histories[i]):
                self.finish(i, self.of(state, i), FINISHED, reason)
        for i in set(self.race(self.histories)) & set(self.active) if self.race else ():
            self.finish(i, self.of(state, i), FINISHED, "overtaken by others")

    def diverge(self, i: int, good: ServerState, name: str) -> None:
        """Stop an experiment whose numbers ceased to be finite, at its last good state."""
        row, local = self.histories[i].rows[-1], self.algorithms[i].local
        self.histories[i] = replace(self.histories[i], rows=self.histories[i].rows[:-1])
        self.users[i] = self.users[i].before(int(row["round"]))
        self.passed[i] = self.until(i)
        kept = f"; the last good checkpoint is in {self.folders[i]}" if self.folders[i] else ""
        rate = float(local.batches.lr) * float(local.batches.decay) ** (row["round"] - 1)
        why = f"{name.replace('_', ' ')} is {row[name]} after round {int(row['round'])} with learning rate {rate:g}"
        self.finish(i, good, DIVERGED, f"diverged: {why}{kept}; try a smaller learning rate")

    def finish(self, i: int, state: ServerState, status: str, stopped: str) -> None:
        """End an experiment: its run, and in its folder the checkpoint, history and model."""
        folder = self.folders[i]
        host: ServerState = jax.tree.map(np.array, state)
        best = self.best_row(i)
        kept = (self.best[i] if best else None) or host
        whose_model = whose(self.algorithms[i], kept.variables, len(self.program.data))
        self.finished[i] = Run(
            self.labels[i], self.histories[i], kept.variables, stopped, status, folder, self.users[i],
            self.passed[i] if self.program.clock else None, owned(self.algorithms[i], kept),
            identity=self.identities[i], best=best, monitor=self.settings.monitored, **whose_model,
        )  # fmt: skip
        if folder:
            write_model(folder, self.write(i, host, status, stopped), kept.variables)
        if folder and self.program.clock:
            checkpoint.write_bytes(folder / WORKERS, json_content({"workers": by_worker(self.passed[i])}))

    def save(self, state: ServerState) -> None:
        """Checkpoint every experiment that goes on."""
        for i in self.active:
            if self.folders[i]:
                self.write(i, jax.tree.map(np.array, self.of(state, i)))
        self.saved = time.perf_counter()

    def write(self, i: int, state: ServerState, status: str = RUNNING, stopped: str = "") -> Record:
        """Write an experiment's checkpoint, and its history as a copy; return what they say.

        The checkpoint is written first: whatever is read afterwards, the checkpoint counts.
        """
        folder, history = self.folders[i], self.histories[i]
        assert folder is not None
        record = Record(
            self.labels[i], history, int(history.last("round")), status, stopped, monitor=self.settings.monitored,
            keeps_best=self.settings.stop.keeps_best,
            **whose(self.algorithms[i], state.variables, len(self.program.data)), settings=self.settings.recorded(),
            identity=self.identities[i],
        )  # fmt: skip
        best = self.best[i] if record.model_round != record.round else None
        parts = {checkpoint.LAST: flatten(state), checkpoint.USERS: self.users[i].arrays()}
        parts |= {checkpoint.BEST: flatten(best)} if best is not None else {}
        checkpoint.write(folder, checkpoint.Checkpoint.of(parts, record.as_json()))
        write_history(folder, record)
        return record


def by_worker(passed: Passed) -> list[dict[str, float]]:
    """What passed by the clock, worker by worker."""
    each = zip(passed.ready.tolist(), passed.up.tolist(), passed.down.tolist(), strict=True)
    return [{"worker": k, "seconds": t, "bytes_up": up, "bytes_down": down} for k, (t, up, down) in enumerate(each)]


def costs(program: Program, state: ServerState, did: Rounds | None, history: History, i: int) -> dict[str, float]:
    """What an experiment has cost so far."""
    if did is None:
        return {"round": 0, "steps": 0, "bytes_up": 0, "bytes_down": 0, "update_norm": 0.0}
    last = history.rows[-1]
    broken = {} if did.broken is None else {"broken": last.get("broken", 0) + float(did.broken[:, i].sum())}
    first, rounds = int(last["round"]), len(did.norm)
    steps = program.taken(program.cohorts(first, rounds))[:, i].sum()
    moved = program.sent(first, rounds, i) * program.model_bytes(state)
    return {
        "round": first + rounds,
        "steps": last["steps"] + int(steps),
        "bytes_up": last["bytes_up"] + moved,
        "bytes_down": last["bytes_down"] + program.down * moved,
        "update_norm": float(did.norm[-1, i]),
        **broken,
    }
