"""Ongoing: experiments under way in one program: advance, evaluate, record, save, and take leave."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

import fedloom.runs.checkpoint as checkpoint
from fedloom.algorithms import Method, RoundState
from fedloom.data.checksum import json_content
from fedloom.engines import Program
from fedloom.engines.clock import Passed, exact_sum, nothing
from fedloom.engines.deferred import Columns
from fedloom.engines.observed import Rounds
from fedloom.engines.program import clients_of
from fedloom.runs.history import History
from fedloom.runs.interrupt import interruptible
from fedloom.runs.ledger import Cost, add_cost, cost_of_models
from fedloom.runs.ownership import owned, whose
from fedloom.runs.record import FINISHED, INTERRUPTED, RUNNING, Record
from fedloom.runs.recorder import Decision, Recorder
from fedloom.runs.restore import Identity
from fedloom.runs.result import WORKERS, Run, write_history, write_model
from fedloom.runs.settings import Settings
from fedloom.runs.turn import Turn, first_turn, may_run_ahead, next_turn, round_of
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
        self.identities, self.labels, self.algorithms = identities, labels, algorithms
        self.recorders = [Recorder(history, settings.stop) for history in histories]
        self.watch: Watch | None = None
        self.race: Race | None = None
        self.users = [Users() for _ in histories]
        self.best: list[RoundState | None] = [None] * len(histories)  # the state after the best round, if it is kept
        self.finished: dict[int, Run] = {}
        self.kept: dict[int, RoundState] = {}  # the state of each finished experiment's model
        self.inside = list(range(len(histories)))  # the experiments that the program computes, in its order
        before = max((h.last("seconds") for h in histories if len(h)), default=0.0)
        self.began = time.perf_counter() - before
        self.saved = -math.inf  # the first rounds are saved at once
        self.passed = [self.until(i) for i in range(len(histories))]
        self.took = list[float]()  # seconds of each turn of the program's loop; the first one compiles

    def run(self, state: RoundState) -> list[Run]:
        """Advance, evaluate and record until every experiment has stopped.

        The device computes the next turn while the results of the last one are recorded, where that pays.
        """
        if self.recorders[0].last is None:
            self.record(first_turn(self.program, state, self.settings.evaluated))
        else:
            self.settle(state, None, {i: recorder.decide() for i, recorder in enumerate(self.recorders)})
        now, coming = round_of(state), None
        with interruptible() as interrupted:
            while self.active and not interrupted() and time.perf_counter() < self.settings.until:
                start = time.perf_counter()
                turn = coming or self.dispatch(state, now)
                coming = self.dispatch(turn.state, turn.round) if self.goes_ahead(turn) else None
                self.record(turn)
                self.took.append(time.perf_counter() - start)
                program, now = self.program, turn.round
                state = self.shrink(turn.state, now)
                coming = coming if self.program is program else None
                if time.perf_counter() - self.saved > self.settings.save_seconds:
                    self.save(state)
        for i in self.active:
            self.finish(i, self.copied(state, i), INTERRUPTED, "interrupted; it can be resumed")
        return [self.finished[i] for i in range(len(self.recorders))]

    def dispatch(self, state: RoundState, now: int) -> Turn:
        """Dispatch the rounds up to the next evaluation, which is in the same rounds wherever a run was resumed."""
        every = self.settings.every
        rounds = min(every - now % every, self.settings.stop.rounds - now)
        return next_turn(self.program, state, now, rounds, self.settings.evaluated)

    def goes_ahead(self, turn: Turn) -> bool:
        """Return whether to dispatch the turn after this one now."""
        return turn.round < self.settings.stop.rounds and may_run_ahead(self.program, turn.state, self.took)

    def until(self, i: int) -> Passed:
        """What has passed by the clock in the rounds that an experiment has done."""
        begun, rounds = nothing(len(self.program.data)), self.recorders[i].round
        return self.program.passed(begun, 0, rounds, self.inside.index(i)) if self.program.clock else begun

    @property
    def histories(self) -> list[History]:
        """The histories of all experiments."""
        return [recorder.history for recorder in self.recorders]

    @property
    def active(self) -> list[int]:
        """The experiments that have not stopped."""
        return [i for i in range(len(self.recorders)) if i not in self.finished]

    def of(self, state: RoundState, i: int) -> RoundState:
        """The state of one experiment."""
        mine: RoundState = member(state, self.inside.index(i))
        return mine

    def copied(self, state: RoundState, i: int) -> RoundState:
        """A copy of the state of one experiment on the host; a program of one experiment compiles nothing for it."""
        at = self.inside.index(i)
        chosen = state if len(self.inside) == 1 else jax.tree.map(lambda a: a[at : at + 1], state)
        mine: RoundState = jax.tree.map(lambda a: np.array(a[0]), jax.device_get(chosen))
        return mine

    def shrink(self, state: RoundState, now: int) -> RoundState:
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

    def record(self, turn: Turn) -> None:
        """Wait for the results of a turn, add a row to every history that goes on, and take leave of those that end."""
        did, measured = turn.fetch()
        seconds, decisions = time.perf_counter() - self.began, dict[int, Decision]()
        for i in self.active:
            row = self.row(i, turn, did, seconds, measured)
            self.recorders[i], decisions[i] = self.recorders[i].add(row, must_be_finite=did is not None)
        if self.watch:
            self.watch([decisions[i].shown if i in decisions else history for i, history in enumerate(self.histories)])
        self.settle(turn.state, turn.before, decisions)

    def row(self, i: int, turn: Turn, did: Rounds | None, seconds: float, measured: Columns) -> dict[str, float]:
        """Return an experiment's row of the history after a turn, and let its clock and the records of users go on."""
        at = self.inside.index(i)
        metrics = {name: float(values[at]) for name, values in measured.items()}
        row = {**add_cost(self.recorders[i].last, cost_of(self.program, turn, did, at)), "seconds": seconds, **metrics}
        if self.program.clock:
            row |= self.pass_time(i, turn.round)
        if did is not None and did.users:
            each = present(clients_of(self.program, did, at), self.program.m)
            everybody = len(self.program.data)
            self.users[i] += {"round": np.int64(turn.round), "all_clients": np.int64(everybody), **each}
            row |= {**summary(each, self.program.task.directions), "users_all": everybody}
        return row

    def pass_time(self, i: int, now: int) -> dict[str, float]:
        """Let the clock go on to a round, and read it: seconds, and bytes in all and through the busiest link."""
        done = self.recorders[i].round
        self.passed[i] = passed = self.program.passed(self.passed[i], done, now - done, self.inside.index(i))
        down = exact_sum(passed.down) if self.program.down else 0  # what peers send is not sent once more
        sent = {"bytes_up": exact_sum(passed.up), "bytes_down": down}
        return {"clock": passed.now, **sent, "busiest_bytes": int((passed.up + passed.down).max())}

    def settle(self, state: RoundState, before: RoundState | None, decisions: Mapping[int, Decision]) -> None:
        """Take leave of the experiments that have stopped.

        Args:
            state: the state after the last rounds.
            before: the state before them, if there were any.
            decisions: what follows from the last row of each experiment that went on.
        """
        for i, decision in decisions.items():
            if decision.has_diverged:
                assert before is not None
                self.diverge(i, self.copied(before, i), decision)
                continue
            if self.recorders[i].last_is_best:
                self.best[i] = self.copied(state, i)
            if decision.has_ended:
                self.finish(i, self.copied(state, i), decision.status, decision.reason)
        for i in set(self.race(self.histories)) & set(self.active) if self.race else ():
            self.finish(i, self.copied(state, i), FINISHED, "overtaken by others")

    def diverge(self, i: int, good: RoundState, decision: Decision) -> None:
        """Stop an experiment whose numbers ceased to be finite, at its last good state."""
        round, local = int(decision.shown.last("round")), self.algorithms[i].local
        self.users[i] = self.users[i].before(round)
        self.passed[i] = self.until(i)
        kept = f"; the last good checkpoint is in {self.folders[i]}" if self.folders[i] else ""
        rate = float(local.batches.lr) * float(local.batches.decay) ** (round - 1)
        why = f"{decision.reason} with learning rate {rate:g}"
        self.finish(i, good, decision.status, f"diverged: {why}{kept}; try a smaller learning rate")

    def finish(self, i: int, state: RoundState, status: str, stopped: str) -> None:
        """End an experiment: its run, and in its folder the checkpoint, history and model."""
        folder = self.folders[i]
        best, history = self.recorders[i].best, self.recorders[i].history
        kept = (self.best[i] if best else None) or state
        whose_model = whose(self.algorithms[i], kept.variables, len(self.program.data))
        self.kept[i] = kept
        self.finished[i] = Run(
            self.labels[i], history, kept.variables, stopped, status, folder, self.users[i],
            self.passed[i] if self.program.clock else None, owned(self.algorithms[i], kept),
            identity=self.identities[i], best=best, monitor=self.settings.monitored, **whose_model,
        )  # fmt: skip
        if folder:
            write_model(folder, self.write(i, state, status, stopped), kept.variables)
        if folder and self.program.clock:
            checkpoint.write_bytes(folder / WORKERS, json_content({"workers": by_worker(self.passed[i])}))

    def save(self, state: RoundState) -> None:
        """Checkpoint every experiment that goes on."""
        for i in self.active:
            if self.folders[i]:
                self.write(i, self.copied(state, i))
        self.saved = time.perf_counter()

    def write(self, i: int, state: RoundState, status: str = RUNNING, stopped: str = "") -> Record:
        """Write an experiment's checkpoint, and its history as a copy; return what they say.

        The checkpoint is written first: whatever is read afterwards, the checkpoint counts.
        """
        folder, recorder = self.folders[i], self.recorders[i]
        assert folder is not None
        record = Record(
            self.labels[i], recorder.history, recorder.round, status, stopped, monitor=self.settings.monitored,
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


def cost_of(program: Program, turn: Turn, did: Rounds | None, at: int) -> Cost:
    """Return what the rounds of a turn cost an experiment.

    Args:
        program: the program that computed them.
        turn: the rounds.
        did: what they did, on the host; ``None`` before the first round.
        at: the place of the experiment in the program.
    """
    if did is None:
        return Cost(0, 0, 0, 0, 0.0)
    rounds = len(did.norm)
    assert did.cohort is not None
    sent = program.sent(turn.round - rounds, rounds, at)
    rejected = None if did.broken is None else float(did.broken[:, at].sum())
    steps, size = int(program.taken(did.cohort, turn.round - rounds)[:, at].sum()), program.model_bytes(turn.state)
    return cost_of_models(rounds, steps, sent, program.down * sent, size, float(did.norm[-1, at]), rejected)
