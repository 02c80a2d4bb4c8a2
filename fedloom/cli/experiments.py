"""Experiments: run one."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fedloom.algorithms import Method
from fedloom.cli.read_as import as_json, tables
from fedloom.cli.shared import (
    FIELDS,
    DataFolder,
    Debug,
    File,
    Json,
    Out,
    Quiet,
    described,
    errors,
    tell,
    told,
    with_fields,
)
from fedloom.data import FederatedData, picture
from fedloom.engines.own_models import SHOWN
from fedloom.errors import CheckpointError, FedloomError, require
from fedloom.mixing import Graph
from fedloom.runs import report
from fedloom.runs.checkpoint import write_text
from fedloom.runs.checks import check
from fedloom.runs.experiment import Experiment
from fedloom.runs.lock import alone
from fedloom.runs.monitor import watching
from fedloom.runs.plot import plot
from fedloom.runs.portraits import animation, bands, mixing, related, workers
from fedloom.runs.prepare import federated
from fedloom.runs.ranks import ORDER
from fedloom.runs.restore import standing
from fedloom.runs.result import Run
from fedloom.runs.resumption import check_resumption
from fedloom.runs.runner import train

EXPERIMENT, FIGURE, CLIENTS, CENTRAL = "experiment.toml", "figure.png", "clients.png", "central"
USERS, MIXING = "users.png", "mixing.png"
QUICK_START: dict[str, Any] = {"target": 0.97, "rounds": 200}
"""The fields of `fedloom run` without a file and without options of an experiment."""
RELATED, WORKERS, ANIMATION = "related.png", "workers.png", "workers.gif"


@with_fields()
def run_command(
    file: File = None,
    out: Out = None,
    central: Annotated[bool, typer.Option("--central", help="also train on the union, in one place")] = False,
    data_folder: DataFolder = None,
    quiet: Quiet = False,
    json_: Json = False,
    debug: Debug = False,
    **fields: Any,
) -> None:
    """Run one experiment. Without options of an experiment: MNIST, 2NN, IID, to 97 % test accuracy.

    That quick start is --target 0.97 --rounds 200. Any option of an experiment replaces it; there is no target then.

    Shows progress, then a table and a figure; keeps the history, checkpoints and the model in a folder.

    With --central the same model is then trained on the union of all data, for as many passes, rounded up.

    Examples:
      fedloom run

      fedloom run --model cnn --partition shards --epochs 5 --target 0.99 --rounds 300

      fedloom run experiment.toml --lr 0.05

      fedloom run --data people.csv --user who --label what --central
    """
    with told(debug):
        experiment = described(file, fields)
        if not experiment.given:
            experiment = Experiment(**QUICK_START)
            quick = " ".join(f"--{name} {value}" for name, value in QUICK_START.items())
            if not (quiet or json_):
                errors.print(f"Quick start: fedloom run {quick}", style="dim", highlight=False)
        folder = folder_of(out, f"{experiment.model}-{short(experiment.data)}")
        known = folder / EXPERIMENT
        if known.exists() and (was := Experiment.read(known)) != experiment:
            other = f"{folder} holds another experiment ({differences(was, experiment)})"
            raise CheckpointError(f"{other}: choose another folder, or fedloom resume it")
        go(experiment, folder, Manner(quiet, json_, data_folder), central)


@dataclass(frozen=True)
class Manner:
    """How a command tells what it does, and where its data is."""

    quiet: bool
    json: bool
    data_folder: Path | None

    @property
    def shows(self) -> bool:
        """Whether a progress bar is wanted."""
        return not (self.quiet or self.json)


def go(experiment: Experiment, folder: Path, manner: Manner, central: bool = False) -> None:
    """Run an experiment in a folder, and the same on the union if that is wanted, and tell what came of it."""
    beside = "federated, to be shown beside central"
    require(not central or experiment.algorithm != "central", "algorithm", beside, experiment.algorithm)
    if (folder / ORDER).exists():
        raise CheckpointError(
            f"{folder} holds a run over MPI: go on with mpirun … fedloom peers {folder / EXPERIMENT} --out {folder}"
        )
    if central:
        experiment.centrally(1)  # raises what would otherwise be raised after the run
    data = build(experiment, folder, manner, [experiment.build_algorithm()])
    with alone(folder):
        check_folder(experiment, folder)
        gone(experiment, data, folder, manner, central)


def gone(experiment: Experiment, data: FederatedData, folder: Path, manner: Manner, central: bool) -> None:
    """The same in a folder in which nobody else works."""
    if central:
        (folder / CENTRAL).mkdir(parents=True, exist_ok=True)
    runs, passes = [trained(experiment, data, folder, manner)], 0.0
    if central and runs[0].finished:
        passes = experiment.passes(data, int(runs[0].history.last("round")))
        alike = experiment.centrally(math.ceil(passes), experiment.passes(data, 1))
        runs.append(trained(alike, data.union(), folder / CENTRAL, manner))
    against = ["rounds"] if len(runs) == 1 else ["steps"]  # a round of federation and an epoch are no match
    against += ["clock"] if experiment.compute is not None else []
    plot([(r.label, r.history) for r in runs], against=against, target=experiment.target, file=folder / FIGURE)
    result = report.as_json(runs[0]) | ({"central": report.as_json(runs[1])} if len(runs) > 1 else {})
    result |= as_json(data)
    shown = [report.summary(run) for run in runs]
    rates = experiment.decay, alike.decay if len(runs) > 1 else 1.0
    compared = [report.beside(runs[0], runs[1], passes, rates)] if len(runs) > 1 else []
    files = f"Figure: {folder / FIGURE}   Clients: {folder / CLIENTS}" + users_drawn(
        runs[0], folder, along(experiment.build_algorithm(), len(data))
    )
    tell(manner.quiet, manner.json, result, *shown, *compared, files)
    for run in runs:
        if run.diverged:
            raise FedloomError(run.stopped)
    leave_if_interrupted(runs, folder)


def users_drawn(run: Run, folder: Path, graph: Graph | None) -> str:
    """Draw how users fared, if that was measured, how they mixed, if they did, and along a graph, if there was one;
    where that is.
    """
    if not len(run.users):
        return ""
    bands([(run.label, run.users)], file=folder / USERS)
    drawn = [USERS]
    if "mixing" in run.users.columns:
        mixing(run.users, file=folder / MIXING)
        drawn.append(MIXING)
    if "related" in run.users.columns:
        related(run.users, file=folder / RELATED)
        drawn.append(RELATED)
    if graph is not None and len(graph) <= SHOWN:
        workers(run.label, run.users, run.history, graph, file=folder / WORKERS)
        animation(run.label, run.users, folder / ANIMATION, graph)
        drawn += [WORKERS, ANIMATION]
    return "   Users: " + ", ".join(str(folder / name) for name in drawn)


def along(algorithm: Method, workers: int) -> Graph | None:
    """Who hears whom, where there is no server but a topology."""
    mixer = getattr(algorithm.routing.for_clients(workers), "mixer", None)
    return mixer.graph if mixer else None


def build(experiment: Experiment, folder: Path, manner: Manner, algorithms: Sequence[Method]) -> FederatedData:
    """The data of an experiment, if the algorithms can work on it, with a picture of it in the folder."""
    data = federated(experiment, manner.data_folder)
    for split in experiment.splits:
        has = f"one of the parts that the data has, {' and '.join(data.splits)} (split it, or evaluate others)"
        require(split in data.splits, "evaluate", has, split)
    has_test = "test" in data.splits or experiment.users == "no"
    require(has_test, "users", "no: there is no test data to measure them on (--test-share)", experiment.users)
    for algorithm in algorithms:  # before anything is written
        check(algorithm, experiment.build_task(data), data)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FedloomError(f"the folder {folder} cannot be made ({error.strerror})") from error
    picture(data, folder / CLIENTS)
    for table in tables(data.read_as) if manner.shows else ():
        errors.print(table)
    if manner.shows:
        line = "; ".join(text for text in (data.inputs, data.note) if text)
        errors.print(f"{data.name}: {line}", style="dim", soft_wrap=True, highlight=False)
    return data


def trained(experiment: Experiment, data: FederatedData, folder: Path, manner: Manner) -> Run:
    """One experiment run in a folder, with a progress bar."""
    task, algorithm = experiment.build_task(data), experiment.build_algorithm()
    stop = experiment.stop()
    settings = watching(experiment.settings(), algorithm, task, data)
    label = experiment.label_on(data.name)
    if stored := standing(folder):
        check_resumption(folder, stored, label, settings)  # before anything is written
    write_text(folder / EXPERIMENT, experiment.to_toml())
    engine = experiment.build_engine()
    with report.live(errors, stop, manner.shows) as watch:
        [run] = train(engine, data, task, [algorithm], [experiment.seed], settings, [folder], [label], watch([label]))
    return run


def leave_if_interrupted(runs: Sequence[Run], folder: Path) -> None:
    """After Ctrl-C, say how to go on."""
    if any(run.interrupted for run in runs):
        errors.print(f"Go on with: fedloom resume {folder}", style="yellow", soft_wrap=True)
        raise typer.Exit(130)


def check_folder(experiment: Experiment, folder: Path) -> None:
    """Raise a :class:`CheckpointError` if another experiment stands in a folder; when it stops may differ."""
    known, anyhow = folder / EXPERIMENT, {"rounds": 1, "target": None}
    if not known.exists():
        return
    was, now = Experiment.read(known).replace(**anyhow), experiment.replace(**anyhow)
    if was != now:
        other = f"{folder} holds another experiment ({differences(was, now)})"
        raise CheckpointError(f"{other}: choose another folder with --out")


def differences(was: Experiment, now: Experiment) -> str:
    """What differs between two experiments.

    >>> differences(Experiment(lr=0.2), Experiment(epochs=5))
    'epochs = 1 there, 5 here, lr = 0.2 there, 0.1 here'
    """
    both = {f.name: (getattr(was, f.name), getattr(now, f.name)) for f in FIELDS}
    return ", ".join(f"{name} = {a!r} there, {b!r} here" for name, (a, b) in both.items() if a != b)


def folder_of(out: Path | None, name: str) -> Path:
    """Where results go: the folder that is given, or one under runs/ that does not exist yet."""
    if out is not None:
        require(not out.exists() or out.is_dir(), "out", "a folder", str(out))
        return out
    stamp = time.strftime("%Y%m%d-%H%M%S")
    candidates = (Path("runs") / f"{stamp}-{name}{suffix}" for suffix in ["", *(f"-{i}" for i in range(2, 1000))])
    return next(folder for folder in candidates if not folder.exists())


def short(data: str) -> str:
    """What a data set is called in a folder's name.

    >>> short("mnist"), short("data/people.csv.gz")
    ('mnist', 'people')
    """
    return Path(data).name.split(".")[0]
