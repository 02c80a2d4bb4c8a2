"""Restore: the states and histories that stand in runs' folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fedloom.runs.checkpoint as checkpoint
from fedloom.algorithms import Method, RoundState
from fedloom.data import FederatedData
from fedloom.engines import Program
from fedloom.engines.clock import Clock
from fedloom.errors import CheckpointError, warn
from fedloom.runs.fingerprint import fingerprint, optimiser
from fedloom.runs.history import History, from_rows
from fedloom.runs.record import Record, from_json
from fedloom.runs.result import HISTORY, holds_run, measured
from fedloom.runs.users import Users
from fedloom.tasks import Task
from fedloom.trees import names

Identity = dict[str, Any]
Check = Callable[[Path, Record], None]
TRACED = ("model", "optimiser")
"""What makes a run, of which a hash is known: it can only be compared if the same program made both."""


def identities(
    data: FederatedData, task: Task, algorithms: Sequence[Method], seeds: Sequence[int], clock: Clock | None = None
) -> list[Identity]:
    """What makes each run this run and no other; the rules for stopping it are not part of it."""
    model, timed = {"model": fingerprint(task, data.columns)}, clock.describe() if clock else {}
    same = {"data": data.fingerprint, "task": task.name}
    return [{**same, "seed": int(seed), **a.describe(), **timed, **model, "optimiser": optimiser(a.local)}
            for a, seed in zip(algorithms, seeds, strict=True)]  # fmt: skip


def difference(there: Identity, here: Identity) -> str:
    """How one run is not another; empty if it is. Models can only be compared if the same program traced both."""
    differs = [k for k in {**here, **there} if k not in TRACED and there.get(k) != here.get(k)]
    if differs:
        return ", ".join(f"{k} = {there.get(k)!r} there, {here.get(k)!r} here" for k in differs)
    one, other = there.get("model", {}), here.get("model", {})
    if one.get("traced") != other.get("traced"):
        return ""
    if one != other:
        return f"of another model, which is called {here['task']!r} too"
    same = there.get("optimiser", "") == here.get("optimiser", "")
    return "" if same else f"with another optimiser, which is called {here['optimizer']!r} too"


def standing(folder: Path | None) -> Record | None:
    """Return how the run in a folder stands; ``None`` if there is none."""
    stored, _ = checkpoint.read(folder) if folder else (None, [])
    return from_json(stored.about) if stored else None


def restore(
    program: Program, folders: Sequence[Path | None], who: Sequence[Identity], checks: Sequence[Check]
) -> tuple[RoundState, list[History], list[Users], list[RoundState | None]]:
    """Return the states, histories, users and best states that stand in the folders, or those before the first round.

    Args:
        program: the program that goes on.
        folders: the folder of each experiment, if it has one.
        who: what makes each run this run.
        checks: for each experiment a function that raises if the run in its folder cannot go on.
    """
    found = [_stored(folder, one, check) if folder else None
             for folder, one, check in zip(folders, who, checks, strict=True)]  # fmt: skip
    better = program.task.directions
    if all(one is None for one in found):
        return program.init(), [History(better=better) for _ in found], [Users() for _ in found], [None for _ in found]
    kept = [one for one in found if one is not None]
    if len(kept) < len(found):
        raise CheckpointError("some of these experiments have begun and some have not: run them apart")
    like: RoundState = jax.eval_shape(program.begun, program.method, program.seeds)  # compiles nothing
    try:
        states = [on_host(like, one.part(checkpoint.LAST)) for one in kept]
    except KeyError as error:
        whose = "an older server's step" if "optimizer." in str(error) else "another model"
        raise CheckpointError(f"the checkpoint lacks {error}: it is of {whose}") from error
    for state in states:
        same_shapes(like, state)
    return (
        program.place(jax.tree.map(lambda *leaves: np.stack(leaves), *evened(states))),
        [from_rows(one.about["rows"], better) for one in kept],
        [measured(one) for one in kept],
        [best_state(one, like, state) for one, state in zip(kept, states, strict=True)],
    )


def on_host(like: RoundState, arrays: Mapping[str, np.ndarray]) -> RoundState:
    """Return the state of one experiment from its arrays, which stay in NumPy: nothing is compiled.

    Args:
        like: a state of the same structure, in shapes.
        arrays: the arrays by their dotted names.

    Raises:
        KeyError: names the array that is missing.
    """
    state: RoundState = jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in names(like)])
    return state


def best_state(stored: checkpoint.Checkpoint, like: RoundState, last: RoundState) -> RoundState | None:
    """Return the state after the best round, as a checkpoint holds it; ``None`` if it does not keep that."""
    arrays, record = stored.part(checkpoint.BEST), from_json(stored.about)
    if arrays:
        return on_host(like, arrays)
    return last if record.keeps_best else None


def same_shapes(like: RoundState, state: RoundState) -> None:
    """Raise a :class:`CheckpointError` unless a model's arrays have the shapes of the program's.

    Args:
        like: the states of all experiments, in shapes.
        state: the state of one of them.
    """
    for name, wanted, found in zip(
        names(like.variables), jax.tree.leaves(like.variables), jax.tree.leaves(state.variables), strict=True
    ):
        if found.shape != wanted.shape[1:]:
            shapes = f"{found.shape}, here {wanted.shape[1:]}"
            raise CheckpointError(f"the checkpoint's {name} has the shape {shapes}: it is of another model")


def evened(states: list[RoundState]) -> list[RoundState]:
    """Return states on the host with as many rows each in what clients keep; a new row is as the first."""
    every = [kept for state in states if (kept := state.clients) is not None]
    if not every:
        return states
    most = max(len(jax.tree.leaves(kept.rows)[0]) for kept in every)
    longer = lambda a: np.concatenate([a, np.broadcast_to(a[:1], (most - len(a), *a.shape[1:]))])  # noqa: E731
    return [
        replace(s, clients=replace(k, rows=jax.tree.map(longer, k.rows))) for s, k in zip(states, every, strict=True)
    ]


def _stored(folder: Path, who: Identity, check: Check) -> checkpoint.Checkpoint | None:
    """Return the checkpoint in a folder; ``None`` if the folder holds no run yet.

    Raises:
        CheckpointError: if the folder holds another run, or one without a checkpoint.
    """
    stored, troubles = checkpoint.read(folder)
    for trouble in troubles:
        warn(f"{trouble}; going on from the previous one")
    if stored is None:
        if holds_run(folder):
            text = f"{folder} holds {HISTORY}, but no checkpoint from which this run could go on"
            raise CheckpointError(f"{text}: choose another folder, or restore the checkpoint")
        return None
    if was := difference(stored.about["identity"], who):
        raise CheckpointError(f"{folder} holds another run ({was}): choose another folder")
    check(folder, from_json(stored.about))
    return stored
