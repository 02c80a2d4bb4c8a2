"""Restore: the states and histories that stand in runs' folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fedloom.runs.checkpoint as checkpoint
from fedloom.algorithms import Method, ServerState
from fedloom.data import FederatedData
from fedloom.engines import Program
from fedloom.engines.clock import Clock
from fedloom.engines.keeping import widened
from fedloom.errors import CheckpointError, warn
from fedloom.runs.fingerprint import fingerprint, optimiser
from fedloom.runs.history import History, from_rows
from fedloom.runs.record import Record, from_json
from fedloom.runs.result import HISTORY, holds_run, measured
from fedloom.runs.users import Users
from fedloom.tasks import Task
from fedloom.trees import flatten, member, stack, unflatten

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
) -> tuple[ServerState, list[History], list[Users], list[ServerState | None]]:
    """Return the states, histories, users and best states that stand in the folders, or those before the first round.

    Args:
        program: the program that goes on.
        folders: the folder of each experiment, if it has one.
        who: what makes each run this run.
        checks: for each experiment a function that raises if the run in its folder cannot go on.
    """
    found = [_stored(folder, one, check) if folder else None
             for folder, one, check in zip(folders, who, checks, strict=True)]  # fmt: skip
    fresh, better = program.init(), program.task.directions
    if all(one is None for one in found):
        return fresh, [History(better=better) for _ in found], [Users() for _ in found], [None for _ in found]
    kept = [one for one in found if one is not None]
    if len(kept) < len(found):
        raise CheckpointError("some of these experiments have begun and some have not: run them apart")
    try:
        states = [unflatten(member(fresh, i), one.part(checkpoint.LAST)) for i, one in enumerate(kept)]
    except KeyError as error:
        whose = "an older server's step" if "optimizer." in str(error) else "another model"
        raise CheckpointError(f"the checkpoint lacks {error}: it is of {whose}") from error
    for state in states:
        same_shapes(fresh, state)
    return (
        program.place(stack(evened(states))),
        [from_rows(one.about["rows"], better) for one in kept],
        [measured(one) for one in kept],
        [best_state(one, member(fresh, i), states[i]) for i, one in enumerate(kept)],
    )


def best_state(stored: checkpoint.Checkpoint, like: ServerState, last: ServerState) -> ServerState | None:
    """Return the state after the best round, as a checkpoint holds it; ``None`` if it does not keep that."""
    arrays, record = stored.part(checkpoint.BEST), from_json(stored.about)
    if arrays:
        found: ServerState = unflatten(like, arrays)
        return found
    return last if record.keeps_best else None


def same_shapes(fresh: ServerState, state: ServerState) -> None:
    """Raise a :class:`CheckpointError` unless a model's arrays are those that it begins with."""
    begun, found = flatten(member(fresh, 0).variables), flatten(state.variables)
    for name, a in found.items():
        if np.shape(a) != np.shape(begun[name]):
            shapes = f"{np.shape(a)}, here {np.shape(begun[name])}"
            raise CheckpointError(f"the checkpoint's {name} has the shape {shapes}: it is of another model")


def evened(states: list[ServerState]) -> list[ServerState]:
    """The same, with as many rows in what clients keep."""
    every = [kept for state in states if (kept := getattr(state, "kept", None)) is not None]
    if not every:
        return states
    most = max(len(jax.tree.leaves(kept.rows)[0]) for kept in every)
    rows = [member(widened(stack([kept.rows]), most, most), 0) for kept in every]
    return [replace(s, kept=replace(k, rows=r)) for s, k, r in zip(states, every, rows, strict=True)]


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
