"""Runner: train, evaluate, record, checkpoint, stop; and go on where a run was stopped."""

from __future__ import annotations

import json
import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fedloom.runs.checkpoint as checkpoint
import fedloom.runs.model as model
from fedloom.algorithms import Method, ServerState
from fedloom.data import FederatedData
from fedloom.engines import Compiled, Program, compiled
from fedloom.engines.keeping import widened
from fedloom.engines.program import Rounds
from fedloom.errors import CheckpointError, DivergedError, UnknownName, require
from fedloom.runs.checks import check
from fedloom.runs.history import History, from_rows
from fedloom.runs.plot import plot as draw
from fedloom.runs.stopping import Stop
from fedloom.runs.users import Users, from_arrays, present, summary
from fedloom.tasks import Task, Variables
from fedloom.trees import flatten, member, stack, unflatten

Watch = Callable[[Sequence[History]], None]
Race = Callable[[Sequence[History]], Collection[int]]
"""Histories → which of the experiments need not go on."""
Identity = dict[str, Any]
HISTORY, MODEL = "history.json", "model.safetensors"
USERS = "each user's "  # before the names of what is measured of users, in a checkpoint
COMPILING = 15.0  # seconds that another program may take to compile


@dataclass(frozen=True)
class Run:
    """What came of an experiment.

    Arguments:
        label: what it is called in tables and figures.
        history: what was measured, round by round.
        variables: the final model.
        stopped: why it stopped.
        diverged: whether its numbers ceased to be numbers.
        directory: where it is kept, if anywhere.
        users: how each client did, where that was asked for.
    """

    label: str
    history: History
    variables: Variables
    stopped: str
    diverged: bool = False
    directory: Path | None = None
    users: Users = field(default_factory=Users)

    def __repr__(self) -> str:
        return f"Run({self.label!r}: {int(self.history.last('round')):,} rounds, {self.stopped})"

    @property
    def finished(self) -> bool:
        """Whether it ran to its end: neither interrupted nor diverged."""
        return not self.diverged and not self.stopped.startswith("interrupted")

    def plot(self, metric: str = "accuracy", against: str = "rounds", file: str | Path | None = None) -> Any:
        """Draw a metric against rounds, bytes or seconds; returns the matplotlib figure."""
        return draw([(self.label, self.history)], metrics=[metric], against=[against], file=file)

    def save(self, file: str | Path) -> None:
        """Write the final model as safetensors."""
        model.save(Path(file), self.variables)


@dataclass(frozen=True)
class Settings:
    """How experiments are run: when they stop, what is evaluated, how often, how often they are saved; and whether each
    client of an evaluated round is measured before and after its work.
    """

    stop: Stop
    splits: tuple[str, ...]
    every: int = 1
    save_seconds: float = 5.0
    users: bool = False


def run(
    data: FederatedData,
    task: Task,
    algorithm: Method,
    *,
    rounds: int = 100,
    target: float | None = None,
    patience: int | None = None,
    seconds: float | None = None,
    evaluate: Sequence[str] = ("train", "test"),
    every: int = 1,
    seed: int = 0,
    users: bool = False,
    directory: str | Path | None = None,
    label: str | None = None,
    engine: Compiled | None = None,
    watch: Watch | None = None,
) -> Run:
    """Run one experiment.

    Arguments:
        data: who has which examples.
        task: what is learned.
        algorithm: how.
        rounds, target, patience, seconds: when to stop; see :class:`fedloom.runs.Stop`.
        evaluate: the parts of the data on which models are evaluated.
        every: rounds between evaluations.
        seed: of everything random in the run.
        users: whether each client of an evaluated round is measured on its own test data, before and after its work.
        directory: where to keep it. A run that stands there unfinished goes on where it stopped, with the same numbers.
        engine: where it is computed; compiled in this process by default.
        watch: called with the history after every evaluation.
    """
    settings = Settings(Stop(rounds, seconds, target, patience), _known(data, evaluate), every, users=users)
    folder = Path(directory) if directory else None
    engine = engine or compiled()
    name = label or f"{task.name}, {data.name}"
    [done] = train(engine, data, task, [algorithm], [seed], settings, [folder], [name], watch)
    if done.diverged:
        raise DivergedError(done.stopped)
    return done


def train(
    engine: Compiled,
    data: FederatedData,
    task: Task,
    algorithms: Sequence[Method],
    seeds: Sequence[int],
    settings: Settings,
    folders: Sequence[Path | None],
    labels: Sequence[str],
    watch: Watch | None = None,
    race: Race | None = None,
) -> list[Run]:
    """Run experiments side by side in one program until each has stopped. All are at the same round when they begin.

    Those that have stopped cost nothing more once it pays to go on in a smaller program without them.
    """
    require(settings.every >= 1, "every", "at least 1", settings.every)
    require(all(0 <= seed < 2**32 for seed in seeds), "seed", "between 0 and 4294967295", list(seeds))
    stop, watched = settings.stop, settings.stop.monitor.split("_")[0]
    watching = stop.target is not None or stop.patience is not None
    require(watched in settings.splits or not watching, "evaluate", f"with {watched}, for the target", settings.splits)
    algorithms = [algorithm.sized(len(data)) for algorithm in algorithms]
    for algorithm in algorithms:
        check(algorithm, task, data)
    require(not settings.users or "test" in data.splits, "users", "left alone: there is no test data", settings.users)

    def program(chosen: Sequence[int]) -> Program:
        return engine.program(data, task, [algorithms[i] for i in chosen], [seeds[i] for i in chosen], settings.users)

    identities = [identity(data, task, a, s) for a, s in zip(algorithms, seeds, strict=True)]
    whole = program(range(len(seeds)))
    state, histories, users = restore(whole, folders, identities)
    ongoing = Ongoing(whole, program, settings, list(folders), identities, list(labels), algorithms, histories)
    ongoing.users = users
    ongoing.watch, ongoing.race = watch, race
    return ongoing.run(state)


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
        self.finished: dict[int, Run] = {}
        self.inside = list(range(len(histories)))  # the experiments that the program computes, in its order
        before = max((h.last("seconds") for h in histories if len(h)), default=0.0)
        self.began = time.perf_counter() - before
        self.saved = time.perf_counter()
        self.took = list[float]()  # seconds of each turn of the program's loop; the first one compiles

    def run(self, state: ServerState) -> list[Run]:
        """Advance, evaluate and record until every experiment has stopped."""
        if not len(self.histories[0]):
            self.record(state, None)
        self.settle(state)
        with interruptible() as interrupted:
            while len(self.finished) < len(self.histories) and not interrupted():
                before, start = state, time.perf_counter()
                now = int(np.max(np.asarray(state.round)))
                rounds = min(self.settings.every, self.settings.stop.rounds - now)
                state, did = self.program.advance(state, now, rounds)
                self.record(state, did)
                self.settle(state, before)
                self.took.append(time.perf_counter() - start)
                state = self.shrink(state, now + rounds)
                if time.perf_counter() - self.saved > self.settings.save_seconds:
                    self.save(state)
        for i in self.active:
            self.finish(i, self.of(state, i), "interrupted; it can be resumed")
        return [self.finished[i] for i in range(len(self.histories))]

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
        self.program, self.took = self.rebuild(self.inside), []
        return self.program.place(kept)

    def record(self, state: ServerState, did: Rounds | None) -> None:
        """Evaluate, and add a row to every history that goes on."""
        measured = {split: self.program.evaluate(state, split) for split in self.settings.splits}
        seconds = time.perf_counter() - self.began
        for i in self.active:
            history, at = self.histories[i], self.inside.index(i)
            metrics = {f"{s}_{name}": float(v[at]) for s, values in measured.items() for name, v in values.items()}
            row = {**costs(self.program, state, did, history, at), "seconds": seconds, **metrics}
            if did is not None and did.users:
                each = present({name: np.asarray(values)[-1, at] for name, values in did.users.items()})
                self.users[i] += {"round": np.int64(row["round"]), **each}
                row |= summary(each)
            self.histories[i] = history + row
        if self.watch:
            self.watch(self.histories)

    def settle(self, state: ServerState, before: ServerState | None = None) -> None:
        """Take leave of the experiments that have stopped."""
        for i in self.active:
            row = self.histories[i].rows[-1]
            broken = [name for name, value in row.items() if not math.isfinite(value)]
            if broken and before is not None:
                self.diverge(i, self.of(before, i), broken[0])
            elif reason := self.settings.stop.reason(self.histories[i]):
                self.finish(i, self.of(state, i), reason)
        for i in set(self.race(self.histories)) & set(self.active) if self.race else ():
            self.finish(i, self.of(state, i), "overtaken by others")

    def diverge(self, i: int, good: ServerState, name: str) -> None:
        """Stop an experiment whose numbers ceased to be numbers, at its last good state."""
        row, local = self.histories[i].rows[-1], self.algorithms[i].local
        self.histories[i] = History(self.histories[i].rows[:-1])
        self.users[i] = self.users[i].before(int(row["round"]))
        kept = f"; the last good checkpoint is in {self.folders[i]}" if self.folders[i] else ""
        rate = float(local.lr) * float(local.decay) ** (row["round"] - 1)
        why = f"{name.replace('_', ' ')} is {row[name]} after round {int(row['round'])} with learning rate {rate:g}"
        self.finish(i, good, f"diverged: {why}{kept}; try a smaller learning rate", diverged=True)

    def finish(self, i: int, state: ServerState, reason: str, diverged: bool = False) -> None:
        """An experiment's last word: checkpoint, history and model on disk."""
        folder = self.folders[i]
        host: ServerState = jax.tree.map(np.array, state)
        self.finished[i] = Run(
            self.labels[i], self.histories[i], host.variables, reason, diverged, folder, self.users[i]
        )
        if folder:
            self.write(i, host)
            model.save(folder / MODEL, host.variables)

    def save(self, state: ServerState) -> None:
        """Checkpoint every experiment that goes on."""
        for i in self.active:
            if self.folders[i]:
                self.write(i, jax.tree.map(np.array, self.of(state, i)))
        self.saved = time.perf_counter()

    def write(self, i: int, state: ServerState) -> None:
        """One experiment's checkpoint and its history."""
        folder, rows = self.folders[i], [dict(row) for row in self.histories[i].rows]
        assert folder is not None
        about = {"identity": self.identities[i], "label": self.labels[i], "rows": rows}
        users = {f"{USERS}{name}": values for name, values in self.users[i].arrays().items()}
        checkpoint.write(folder, checkpoint.Checkpoint({**flatten(state), **users}, about))
        checkpoint.write_text(folder / HISTORY, json.dumps({"label": self.labels[i], "rows": rows}, indent=1) + "\n")


def costs(program: Program, state: ServerState, did: Rounds | None, history: History, i: int) -> dict[str, float]:
    """What an experiment has cost so far."""
    if did is None:
        return {"round": 0, "steps": 0, "bytes_up": 0, "bytes_down": 0, "update_norm": 0.0}
    last = history.rows[-1]
    first, rounds = int(last["round"]), len(did.norm)
    steps = program.steps(program.cohorts(first, rounds))[:, i].sum()
    moved = rounds * program.moved * program.model_bytes(state)
    return {
        "round": first + rounds,
        "steps": last["steps"] + int(steps),
        "bytes_up": last["bytes_up"] + moved,
        "bytes_down": last["bytes_down"] + program.down * moved,
        "update_norm": float(did.norm[-1, i]),
    }


def identity(data: FederatedData, task: Task, algorithm: Method, seed: int) -> Identity:
    """What makes a run this run and no other; the rules for stopping it are not part of it."""
    return {"data": data.fingerprint, "task": task.name, "seed": int(seed), **algorithm.describe()}


def restore(
    program: Program, folders: Sequence[Path | None], identities: list[Identity]
) -> tuple[ServerState, list[History], list[Users]]:
    """The states, histories and users that stand in the folders, or those before the first round."""
    found = [_stored(folder, who) if folder else None for folder, who in zip(folders, identities, strict=True)]
    fresh = program.init()
    if all(one is None for one in found):
        return fresh, [History() for _ in found], [Users() for _ in found]
    kept = [one for one in found if one is not None]
    if len(kept) < len(found):
        raise CheckpointError("some of these experiments have begun and some have not: run them apart")
    try:
        states = [unflatten(member(fresh, i), one.arrays) for i, one in enumerate(kept)]
    except KeyError as error:
        raise CheckpointError(f"the checkpoint lacks {error}: it is of another model") from error
    return (
        program.place(stack(evened(states))),
        [from_rows(one.about["rows"]) for one in kept],
        [measured(one) for one in kept],
    )


def evened(states: list[ServerState]) -> list[ServerState]:
    """The same, with as many rows in what clients keep."""
    every = [kept for state in states if (kept := getattr(state, "kept", None)) is not None]
    if not every:
        return states
    most = max(len(jax.tree.leaves(kept.rows)[0]) for kept in every)
    rows = [member(widened(stack([kept.rows]), most, most), 0) for kept in every]
    return [replace(s, kept=replace(k, rows=r)) for s, k, r in zip(states, every, rows, strict=True)]


def measured(stored: checkpoint.Checkpoint) -> Users:
    """What a checkpoint holds of users."""
    return from_arrays({name.removeprefix(USERS): a for name, a in stored.arrays.items() if name.startswith(USERS)})


def _stored(folder: Path, who: Identity) -> checkpoint.Checkpoint | None:
    """The checkpoint in a folder, if it is this run's."""
    stored, troubles = checkpoint.read(folder)
    for trouble in troubles:
        warnings.warn(f"{trouble}; going on from the previous checkpoint", stacklevel=4)
    if stored is None:
        return None
    there = stored.about["identity"]
    differs = [k for k in {**who, **there} if there.get(k) != who.get(k)]
    if differs:
        was = ", ".join(f"{k} = {there.get(k)!r} there, {who.get(k)!r} here" for k in differs)
        raise CheckpointError(f"{folder} holds another run ({was}): choose another folder")
    return stored


def load(directory: str | Path) -> Run:
    """A run that was kept in a folder: its history and, if it has one, its model."""
    folder = Path(directory)
    if not (folder / HISTORY).is_file():
        raise CheckpointError(f"{folder} holds no run: there is no {HISTORY}")
    stored = json.loads((folder / HISTORY).read_text())
    history = from_rows(stored["rows"])
    variables = model.load(folder / MODEL) if (folder / MODEL).is_file() else Variables({}, {})
    had_users = any(name.startswith("users_") for row in history.rows for name in row)
    kept = checkpoint.read(folder)[0] if had_users else None
    return Run(stored["label"], history, variables, "loaded", False, folder, measured(kept) if kept else Users())


def _known(data: FederatedData, splits: Sequence[str]) -> tuple[str, ...]:
    for split in splits:
        if split not in data.splits:
            raise UnknownName("evaluate", split, data.splits)
    return tuple(splits)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C asks to stop at the next evaluation; the second stops at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def ask(*_: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    former = signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, former)
