"""Result: a run that has ended or was interrupted, in memory or read from its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import fedloom.runs.checkpoint as checkpoint
import fedloom.runs.model as model
from fedloom.data.checksum import Damaged, json_content, read_json
from fedloom.direction import metric_of
from fedloom.engines.clock import Passed
from fedloom.errors import ArgumentError, CheckpointError, DataError, require, warn, whole
from fedloom.runs.history import History, Row
from fedloom.runs.lock import is_held
from fedloom.runs.ownership import OWNED, PARTS, SHARED, without
from fedloom.runs.plot import plot as draw
from fedloom.runs.record import DIVERGED, FINISHED, INTERRUPTED, RUNNING, Record, from_json
from fedloom.runs.users import Users, from_arrays
from fedloom.tasks import Variables

HISTORY, MODEL, WORKERS = "history.json", "model.safetensors", "workers.json"


@dataclass(frozen=True)
class Run:
    """What came of an experiment.

    Arguments:
        label: its name in tables and figures.
        history: what was measured, round by round.
        variables: the model after round ``model_round``; ``models`` says whose model it is.
        stopped: why the run stopped.
        status: ``finished``, ``diverged`` (its numbers ceased to be finite; the model is the last good one),
            ``interrupted`` (by Ctrl-C, a limit of time, or a kill), or ``running`` in another process.
        directory: the folder that holds the run, if there is one.
        users: what was measured of each client, if that was asked for.
        passed: the seconds and bytes of every worker by the simulated clock, if there was one.
        own: the number of a client → its model, where all models are in this process.
        clients: the number of clients.
        identity: the settings that make the run what it is: data, task, algorithm, clock, seed. Runs that differ in
            the seed alone are drawn as one curve. Empty where they are not known.
        models: whose model ``variables`` is: the shared one, shared parts of one, or those of all clusters or clients,
            stacked; see :mod:`fedloom.runs.ownership`.
        own_layers: the names of the arrays that are each client's own. In ``variables`` these are as they were before
            the first round; :meth:`of` gives a client's model.
        best: the row of the history in which ``monitor`` is best, if that round's model is kept; ``None`` if the last
            round's is.
        monitor: the column of the history that a target, patience or the best round looks at; empty if none does.
    """

    label: str
    history: History
    variables: Variables
    stopped: str
    status: str = FINISHED
    directory: Path | None = None
    users: Users = field(default_factory=Users)
    passed: Passed | None = None
    own: Callable[[int], Variables] | None = field(default=None, repr=False, compare=False)
    clients: int = 0
    identity: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    models: str = SHARED
    own_layers: Sequence[str] = ()
    best: Row | None = None
    monitor: str = ""

    @property
    def model_round(self) -> int:
        """The round after which the run had the model that it keeps."""
        return int((self.best or self.history.rows[-1])["round"]) if len(self.history) else 0

    def of(self, client: int) -> Variables:
        """Return the model that a client uses, with the layers that belong to this client alone."""
        if self.own is None:
            text = f"of {self.label} there is the model `variables` here, and no client's own"
            raise CheckpointError(f"{text}: those are where they were trained (fl.run(…, directory=…) knows them)")
        whole("client", client, 0, self.clients - 1)
        return self.own(client)

    def __repr__(self) -> str:
        rounds = int(self.history.last("round")) if len(self.history) else 0
        return f"Run({self.label!r}: {rounds:,} rounds, {self.stopped})"

    @property
    def finished(self) -> bool:
        """True if a stopping rule ended the run: it neither diverged nor was interrupted, and does not run now."""
        return self.status == FINISHED

    @property
    def diverged(self) -> bool:
        """True if the run stopped because its numbers ceased to be finite."""
        return self.status == DIVERGED

    @property
    def interrupted(self) -> bool:
        """True if the run was stopped before its end and can be resumed."""
        return self.status == INTERRUPTED

    def plot(self, metric: str | None = None, against: str = "rounds", file: str | Path | None = None) -> Any:
        """Draw a metric (accuracy, or loss where there is none) against rounds, bytes, seconds, steps or the clock;
        returns the matplotlib figure.
        """
        has_accuracy = any(metric_of(name) == "accuracy" for name in self.history.columns)
        metric = metric or ("accuracy" if has_accuracy else "loss")
        return draw([self], metrics=[metric], against=[against], file=file)

    def save(self, file: str | Path, *, client: int | None = None, shared_parts: bool = False) -> None:
        """Write the model as safetensors; the file's metadata says whose model it is, and of which round.

        Args:
            file: the file to write.
            client: write the model that this client uses.
            shared_parts: write only the layers that all clients share, where each client has layers of its own.

        Raises:
            ArgumentError: if each client has layers of its own and neither ``client`` nor ``shared_parts`` is given.
        """
        variables, models = self.variables, self.models
        require(bool(variables.params), "file", f"left unwritten: {self.label} has no model yet", str(file))
        if client is not None:
            require(not shared_parts, "shared_parts", "left alone with a client", shared_parts)
            variables, models = self.of(client), f"the one that client {client} uses"
        elif shared_parts:
            need = "left alone: the model has no layers that are each client's own"
            require(models == PARTS, "shared_parts", need, shared_parts)
            variables = without(variables, self.own_layers)
        elif models == PARTS:
            layers = ", ".join(sorted({name.split(".")[1] for name in self.own_layers}))
            need = f"given, or shared_parts=True: {self.label} has no shared model, because each client has its own"
            raise ArgumentError("client", f"{need} layers ({layers})", None)
        about = {"round": str(self.model_round), "label": self.label, "models": models}
        model.save(Path(file), variables, about)


def load(directory: str | Path) -> Run:
    """Return the run that a folder holds, however it ended: finished, diverged, interrupted or killed.

    The checkpoint says everything: how the run stands, its history and its model. Only where there is no checkpoint, as
    after a run over MPI or a network, ``history.json`` and ``model.safetensors`` are read instead.

    Raises:
        CheckpointError: if the folder holds no run, or only damaged files.
    """
    folder = Path(directory)
    if not holds_run(folder):
        raise CheckpointError(f"{folder} holds no run: there is neither {checkpoint.NAME} nor {HISTORY}")
    stored = _checkpoint(folder)
    if stored is None:
        return _from_copies(folder)
    record = from_json(stored.about)
    if not is_held(folder):
        _compare_copies(folder, record)
    part = checkpoint.BEST if stored.part(checkpoint.BEST) else checkpoint.LAST
    return _run(folder, record, stored_model(stored, part), measured(stored))


def holds_run(folder: Path) -> bool:
    """True if a folder holds a run, whether it can be read or not."""
    return checkpoint.exists(folder) or (folder / HISTORY).is_file()


def write_history(folder: Path, record: Record) -> None:
    """Write ``history.json``, the copy of a record for other programs."""
    checkpoint.write_bytes(folder / HISTORY, json_content(record.as_json()))


def read_history(folder: Path) -> Record:
    """Return the record in ``history.json``.

    Raises:
        CheckpointError: if the file is damaged, or another version of fedloom wrote it.
    """
    try:
        return from_json(read_json((folder / HISTORY).read_bytes()))
    except (Damaged, CheckpointError) as error:
        raise CheckpointError(f"{folder / HISTORY} cannot be used: {error}") from error


def write_model(folder: Path, record: Record, variables: Variables) -> None:
    """Write ``model.safetensors``, the copy of a run's model for other programs, without layers that are each client's
    own.
    """
    about = {"round": str(record.model_round), "label": record.label, "models": record.models}
    model.save(folder / MODEL, without(variables, record.own_layers), about)


def _checkpoint(folder: Path) -> checkpoint.Checkpoint | None:
    """Return the newest good checkpoint, with a warning about damaged ones; ``None`` if there is none."""
    try:
        stored, troubles = checkpoint.read(folder)
    except CheckpointError as error:
        if not (folder / HISTORY).is_file():
            raise
        warn(f"{error}; {HISTORY} and {MODEL} are read instead")
        return None
    for trouble in troubles:
        warn(f"{trouble}; the previous checkpoint is read instead")
    return stored


def _from_copies(folder: Path) -> Run:
    """Return a run from its history and its model, which must be of the same round."""
    record, variables = read_history(folder), Variables({}, {})
    if (folder / MODEL).is_file():
        try:
            found, about = model.read(folder / MODEL)
        except DataError as error:
            raise CheckpointError(str(error)) from error
        if about.get("round") == str(record.model_round):
            variables = found
        else:
            warn(f"{folder / MODEL} is of round {about.get('round')}, {HISTORY} of round {record.model_round}: "
                 "the model is not read")  # fmt: skip
    return _run(folder, record, variables, Users())


def _compare_copies(folder: Path, record: Record) -> None:
    """Warn about copies for other programs that are damaged or of another round than the checkpoint."""
    for name, read, due in (
        (HISTORY, lambda: read_history(folder).round, record.round),
        (MODEL, lambda: _model_round(folder), record.model_round),
    ):
        try:
            found = read() if (folder / name).is_file() else due
        except (CheckpointError, DataError) as error:
            warn(f"{error}; the checkpoint, of round {record.round}, is read instead")
            continue
        if found != due:
            warn(f"{folder / name} is of round {found}, the checkpoint of round {due}: the checkpoint is read")


def _model_round(folder: Path) -> int:
    return int(model.read(folder / MODEL)[1].get("round", -1))


def _run(folder: Path, record: Record, variables: Variables, users: Users) -> Run:
    status, stopped = record.status, record.stopped
    if status == RUNNING and is_held(folder):
        stopped = f"still running; round {record.round} was the last to be saved"
    elif status == RUNNING:
        status, stopped = INTERRUPTED, f"interrupted: it was killed; round {record.round} was the last to be saved"
        if (folder / "journal.sqlite").exists():
            stopped += " here, and the server's journal may hold later ones: begin the server again"
    own = OWNED.get(record.models) if variables.params else None
    return Run(record.label, record.history, variables, stopped, status, folder, users,
               own=partial(own, variables) if own else None, clients=record.clients,
               identity=record.identity, models=record.models, own_layers=record.own_layers,
               best=record.best, monitor=record.monitor)  # fmt: skip


def measured(stored: checkpoint.Checkpoint) -> Users:
    """Return what a checkpoint holds of users."""
    return from_arrays(stored.part(checkpoint.USERS))


def stored_model(stored: checkpoint.Checkpoint, part: str = checkpoint.LAST) -> Variables:
    """Return the model of one of the states in a checkpoint."""
    start = "variables."
    arrays = stored.part(part).items()
    return model.nested((name.removeprefix(start), a) for name, a in arrays if name.startswith(start))
