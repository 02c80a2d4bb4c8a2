"""Restore: the states and histories that stand in runs' folders."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

import fedloom.runs.checkpoint as checkpoint
from fedloom.algorithms import Method, ServerState
from fedloom.data import FederatedData
from fedloom.engines import Program
from fedloom.engines.clock import Clock
from fedloom.engines.keeping import widened
from fedloom.errors import CheckpointError
from fedloom.runs.history import History, from_rows
from fedloom.runs.result import measured
from fedloom.runs.users import Users
from fedloom.tasks import Task
from fedloom.trees import member, stack, unflatten

Identity = dict[str, Any]


def identity(data: FederatedData, task: Task, algorithm: Method, seed: int, clock: Clock | None) -> Identity:
    """What makes a run this run and no other; the rules for stopping it are not part of it."""
    told = {"data": data.fingerprint, "task": task.name, "seed": int(seed), **algorithm.describe()}
    return told | (clock.describe() if clock else {})


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
