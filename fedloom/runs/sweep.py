"""Sweep: many experiments that differ in numbers and seeds, as few programs as possible."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedloom.algorithms import Method
from fedloom.data import FederatedData
from fedloom.engines import Engine, compiled
from fedloom.engines.clock import Clock
from fedloom.errors import ArgumentError, UnknownName, require
from fedloom.local.epochs import parsed
from fedloom.runs.checks import check, check_kinds
from fedloom.runs.monitor import watching
from fedloom.runs.ongoing import Watch
from fedloom.runs.restore import standing
from fedloom.runs.result import Run
from fedloom.runs.resumption import check_resumption
from fedloom.runs.runner import known, train
from fedloom.runs.settings import Settings
from fedloom.runs.stopping import Stop
from fedloom.tasks import Task

SWEPT = {
    "lr": ("local", "lr"),
    "decay": ("local", "decay"),
    "epochs": ("local", "epochs"),
    "batch_size": ("local", "batch_size"),
    "fraction": ("fraction",),
    "selection": ("selection",),
    "server_lr": ("server", "lr"),
    "server_momentum": ("server", "momentum"),
    "temperature": ("weighting", "temperature"),
    "exclude": ("weighting", "z"),
    "mu": ("local", "mu"),
    "period": ("local", "period"),
    "q": ("weighting", "q"),
    "trim": ("combiner", "share"),
    "clip": ("combiner", "norm"),
}
"""Axis → where the number stands in an algorithm."""


@dataclasses.dataclass(frozen=True)
class Point:
    """One experiment of a sweep."""

    label: str
    algorithm: Method
    seed: int

    @property
    def folder(self) -> str:
        """The name of its folder: the label, with what folders may not have in their names left out."""
        return re.sub(r"[^\w.,=+-]", "-", self.label)


def sweep(
    data: FederatedData,
    task: Task,
    algorithm: Method | Mapping[str, Method],
    *,
    seeds: int | Sequence[int] = 1,
    rounds: int = Stop.rounds,
    target: float | None = Stop.target,
    patience: int | None = Stop.patience,
    seconds: float | None = Stop.seconds,
    monitor: str | None = Stop.monitor,
    keep: str | None = Stop.keep,
    until_bytes: float | None = Stop.until_bytes,
    until_clock: float | None = Stop.until_clock,
    evaluate: str | Sequence[str] = ("test",),
    every: int = 1,
    users: bool = False,
    clock: Clock | None = None,
    directory: str | Path | None = None,
    engine: Engine | None = None,
    watch: Callable[[Sequence[str]], Watch] | None = None,
    **axes: Sequence[float | str],
) -> list[Run]:
    """Run every combination of the given numbers and seeds; each gives the numbers it gives alone.

    Combinations that compile to the same program run in it together: side by side on an accelerator, one after another
    on a CPU. A member that diverges is reported as such and does not stop the others.

    Arguments:
        algorithm: one, or several by name: ``{"ring": fl.dpa_sgd("ring"), "server": fl.fedavg()}``.
        seeds: how many (0, 1, …), or which.
        axes: for example ``lr=[0.05, 0.1]``; any of lr, decay, epochs, batch_size, fraction, selection, server_lr,
            server_momentum, temperature, exclude, mu, period, q, trim, clip. Of several algorithms, those that have
            such a number are swept over it.
        directory: where to keep them, a folder each; what stands there finished is not run again.

    The other arguments are those of :func:`fedloom.run`.
    """
    algorithms = algorithm if isinstance(algorithm, Mapping) else {"": algorithm}
    require(len(algorithms) > 0, "algorithm", "at least one", algorithms)
    for one in algorithms.values():
        check_kinds(one, task, data)
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    stop = Stop(rounds, seconds, target, patience, monitor, until_bytes, until_clock, keep)
    settings = Settings(stop, known(data, evaluate), every, users=users, clock=clock)
    points = combinations(algorithms, axes, numbers)
    return run_points(points, engine or compiled(), data, task, settings, Path(directory) if directory else None, watch)


def run_points(
    points: Sequence[Point],
    engine: Engine,
    data: FederatedData,
    task: Task,
    settings: Settings,
    directory: Path | None,
    watch: Callable[[Sequence[str]], Watch] | None = None,
) -> list[Run]:
    """Run some experiments, in as few programs as possible; those that are interrupted are the last."""
    for point in points:
        check(point.algorithm, task, data)  # before any of them runs
    folders = [point.folder for point in points]
    for folder in folders:
        require(folders.count(folder) == 1 or directory is None, "algorithm", "names of different folders", folder)
    check_points(points, data, task, settings, directory)  # before any of them runs
    runs: dict[str, Run] = {}
    for group in groups(points, engine, data, task, directory):
        labels = [p.label for p in group]
        places = [directory / p.folder if directory else None for p in group]
        results = train(
            engine, data, task, [p.algorithm for p in group], [p.seed for p in group], settings, places, labels,
            watch(labels) if watch else None,
        )  # fmt: skip
        runs |= zip(labels, results, strict=True)
        if any(run.interrupted for run in results):
            break
    return [runs[p.label] for p in points if p.label in runs]


def check_points(
    points: Sequence[Point], data: FederatedData, task: Task, settings: Settings, directory: Path | None
) -> None:
    """Raise unless every experiment that stands in a sweep's folder can go on with these settings."""
    for point in points:
        folder = directory / point.folder if directory else None
        if folder and (stored := standing(folder)):
            check_resumption(folder, stored, point.label, watching(settings, point.algorithm, task, data))


def combinations(
    algorithms: Mapping[str, Method], axes: Mapping[str, Sequence[float | str]], seeds: Sequence[int]
) -> list[Point]:
    """Every combination of some algorithms by name, the axes, and seeds.

    >>> from fedloom.algorithms import dpa_sgd, fedavg
    >>> [p.label for p in combinations({"": fedavg()}, {"lr": [0.1, 0.2]}, [0, 1])]
    ['lr=0.1,seed=0', 'lr=0.1,seed=1', 'lr=0.2,seed=0', 'lr=0.2,seed=1']
    >>> [p.label for p in combinations({"server": fedavg(), "ring": dpa_sgd()}, {"period": [1, 5]}, [0])]
    ['server,seed=0', 'ring,period=1,seed=0', 'ring,period=5,seed=0']
    """
    require(len(seeds) > 0, "seeds", "at least one", seeds)
    require(len(set(seeds)) == len(seeds), "seeds", "different ones", seeds)
    for name, values in axes.items():
        if name not in SWEPT:
            raise UnknownName("an axis of a sweep", name, SWEPT)
        require(isinstance(values, Sequence | np.ndarray) and not isinstance(values, str), name, "a list", values)
        require(len(values) > 0, name, "at least one value", values)
        require(len(set(values)) == len(values), name, "different values", values)
        require(name == "batch_size" or None not in values, name, "numbers, to be swept", values)
    places = {
        called: {axis: path for axis in axes if (path := place(algorithm, axis))}
        for called, algorithm in algorithms.items()
    }
    for axis in axes:
        if not any(axis in found for found in places.values()):
            what = [algorithm.describe() for algorithm in algorithms.values()]
            raise ArgumentError(axis, f"left alone: nothing in {' or '.join(map(str, what))} has one", axis)
    points = []
    for called, algorithm in algorithms.items():
        for values in itertools.product(*(axes[axis] for axis in places[called])):
            changed, label = algorithm, [called] if called else []
            for (axis, path), value in zip(places[called].items(), values, strict=True):
                changed = with_number(changed, path, value)
                plain = value.item() if isinstance(value, np.generic) else value
                shown = plain if isinstance(plain, str) else "all" if plain is None else repr(plain)
                label.append(f"{axis}={shown}")
            points += [Point(",".join([*label, f"seed={seed}"]), changed.checked(), seed) for seed in seeds]
    return points


def place(algorithm: Method, axis: str) -> tuple[str, ...] | None:
    """Where an axis's number stands in an algorithm, ``None`` if nowhere; weightings may be inside a mixer, and one
    inside another, as local work and combiners may be.
    """
    path = SWEPT[axis]
    if path[0] == "weighting":
        path = ("routing", *(("mixer",) if hasattr(algorithm.routing, "mixer") else ()), *path)
    while True:
        record: Any = algorithm
        for name in path[:-1]:
            record = getattr(record, name, None)
        names = {f.name for f in dataclasses.fields(record)} if dataclasses.is_dataclass(record) else set()
        if path[-1] in names:
            return path if is_used(axis, record) else None
        deeper = names & {"among", "inner", "then", "batches"}
        if not deeper:
            return None
        path = (*path[:-1], *deeper, path[-1])


def is_used(axis: str, record: Any) -> bool:
    """Whether a number counts there: who counts epochs has no period, most servers have no momentum, and nobody
    is selected where all clients take part.
    """
    if axis == "period":
        return record.period is not None
    if axis == "epochs":
        return getattr(record, "period", None) is None
    if axis == "selection":
        return bool(record.fraction < 1)
    return axis != "server_momentum" or record.name == "momentum"


def with_number(record: Any, path: tuple[str, ...], value: Any) -> Any:
    """The record with the number at that place replaced."""
    name, *rest = path
    own = parsed(value) if name == "epochs" else value
    inner = with_number(getattr(record, name), tuple(rest), value) if rest else own
    return dataclasses.replace(record, **{name: inner})


def groups(
    points: Sequence[Point], engine: Engine, data: FederatedData, task: Task, directory: Path | None
) -> list[list[Point]]:
    """Points that run together: the same program, and the same round if they have begun before."""

    def kind(point: Point) -> Any:
        leaves, structure = jax.tree.flatten(point.algorithm.for_clients(len(data), data.client_names))
        stored = standing(directory / point.folder) if directory else None
        return structure, tuple(np.shape(leaf) for leaf in leaves), stored.round if stored else -1

    found: dict[Any, list[Point]] = {}
    for point in points:
        found.setdefault(kind(point), []).append(point)
    cut = []
    for group in found.values():
        size = engine.group(data, task, group[0].algorithm)
        cut += [group[i : i + size] for i in range(0, len(group), size)]
    return cut
