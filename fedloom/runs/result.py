"""Result: what came of an experiment, in memory or in the folder where it is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax

import fedloom.runs.checkpoint as checkpoint
import fedloom.runs.model as model
from fedloom.algorithms import Method, Personalised
from fedloom.direction import metric_of
from fedloom.engines.clock import Passed
from fedloom.errors import CheckpointError, whole
from fedloom.runs.history import History, from_rows
from fedloom.runs.plot import plot as draw
from fedloom.runs.users import Users, from_arrays
from fedloom.tasks import Variables

HISTORY, MODEL, WORKERS = "history.json", "model.safetensors", "workers.json"
USERS = "each user's "  # before the names of what is measured of users, in a checkpoint


@dataclass(frozen=True)
class Run:
    """What came of an experiment.

    Arguments:
        label: what it is called in tables and figures.
        history: what was measured, round by round.
        variables: the final model, the shared one: what clients keep for themselves is in the model :meth:`of` each.
            Where there is no shared one, everybody's, one beside the other.
        stopped: why it stopped.
        diverged: whether its numbers ceased to be numbers.
        directory: where it is kept, if anywhere.
        users: how each client did, where that was asked for.
        passed: what passed by the clock, if there was one: the seconds and bytes of every worker.
        own: the number of a client → its model, where they are all in this process.
        clients: how many there are.
        identity: the settings that make the run what it is: data, task, algorithm, clock, seed. Runs that differ in
            the seed alone are drawn as one curve. Empty where they are not known.
    """

    label: str
    history: History
    variables: Variables
    stopped: str
    diverged: bool = False
    directory: Path | None = None
    users: Users = field(default_factory=Users)
    passed: Passed | None = None
    own: Callable[[int], Variables] | None = field(default=None, repr=False, compare=False)
    clients: int = 0
    identity: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def of(self, client: int) -> Variables:
        """The model that a client uses: with the layers that are its own, or all its own, where there are such."""
        if self.own is None:
            text = f"of {self.label} there is the model `variables` here, and no client's own"
            raise CheckpointError(f"{text}: those are where they were trained (fl.run(…, directory=…) knows them)")
        whole("client", client, 0, self.clients - 1)
        return self.own(client)

    def __repr__(self) -> str:
        return f"Run({self.label!r}: {int(self.history.last('round')):,} rounds, {self.stopped})"

    @property
    def finished(self) -> bool:
        """Whether it ran to its end: neither interrupted nor diverged."""
        return not self.diverged and not self.stopped.startswith("interrupted")

    def plot(self, metric: str | None = None, against: str = "rounds", file: str | Path | None = None) -> Any:
        """Draw a metric (accuracy, or loss where there is none) against rounds, bytes, seconds, steps or the clock;
        returns the matplotlib figure.
        """
        has_accuracy = any(metric_of(name) == "accuracy" for name in self.history.columns)
        metric = metric or ("accuracy" if has_accuracy else "loss")
        return draw([self], metrics=[metric], against=[against], file=file)

    def save(self, file: str | Path) -> None:
        """Write the final model as safetensors."""
        model.save(Path(file), self.variables)


def load(directory: str | Path) -> Run:
    """A run that was kept in a folder: its history and, if it has one, its model."""
    folder = Path(directory)
    if not (folder / HISTORY).is_file():
        raise CheckpointError(f"{folder} holds no run: there is no {HISTORY}")
    stored = json.loads((folder / HISTORY).read_text())
    history = from_rows(stored["rows"], stored.get("better"))
    whole = (folder / MODEL).is_file()  # not of a run that was killed before its end
    variables = model.load(folder / MODEL) if whole else Variables({}, {})
    had_users = any(name.startswith("users_") for row in history.rows for name in row)
    kept, _ = checkpoint.read(folder)
    users, own = (
        measured(kept) if kept and had_users else Users(),
        OWNED.get(stored.get("models", "")) if whole else None,
    )
    return Run(stored["label"], history, variables, "loaded", False, folder, users,
               own=partial(own, variables) if own else None, clients=stored.get("clients", 0),
               identity=kept.about.get("identity", {}) if kept else {})  # fmt: skip


def whose(algorithm: Method, clients: int) -> dict[str, Any]:
    """What a file says of whose the models are that stand beside it: everybody's, or each client's own; of some there
    are only the parts that all share.
    """
    each = isinstance(algorithm, Personalised)
    models = "each" if each else "shared parts" if algorithm.personal else "one"
    return {"models": models, "clients": clients}


def shared_by_all(variables: Variables, client: int) -> Variables:  # noqa: ARG001
    """The model that all clients use."""
    return variables


def one_of(variables: Variables, client: int) -> Variables:
    """A client's, of models that are one beside the other."""
    own: Variables = jax.tree.map(lambda a: a[client], variables)
    return own


OWNED = {"one": shared_by_all, "each": one_of}
"""Whose models are in a file → a client's."""


def measured(stored: checkpoint.Checkpoint) -> Users:
    """What a checkpoint holds of users."""
    return from_arrays({name.removeprefix(USERS): a for name, a in stored.arrays.items() if name.startswith(USERS)})
