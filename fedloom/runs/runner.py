"""Runner: train, evaluate, record, checkpoint, stop; and go on where a run was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from fedloom.algorithms import Method
from fedloom.data import FederatedData
from fedloom.engines import Engine, Program, compiled
from fedloom.engines.clock import Clock
from fedloom.errors import DivergedError, UnknownName, require
from fedloom.runs.checks import check
from fedloom.runs.ongoing import Ongoing, Race, Watch
from fedloom.runs.restore import identity, restore
from fedloom.runs.result import Run
from fedloom.runs.settings import Settings
from fedloom.runs.stopping import Stop
from fedloom.tasks import Task


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
    clock: Clock | None = None,
    directory: str | Path | None = None,
    label: str | None = None,
    engine: Engine | None = None,
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
        clock: on which machines and links it is to be: how long it would take there is measured too, and those that
            are lost or late do not count.
        directory: where to keep it. A run that stands there unfinished goes on where it stopped, with the same numbers.
        engine: where it is computed; compiled in this process by default.
        watch: called with the history after every evaluation.
    """
    settings = Settings(Stop(rounds, seconds, target, patience), known(data, evaluate), every, users=users, clock=clock)
    folder = Path(directory) if directory else None
    engine = engine or compiled()
    name = label or f"{task.name}, {data.name}"
    [done] = train(engine, data, task, [algorithm], [seed], settings, [folder], [name], watch)
    if done.diverged:
        raise DivergedError(done.stopped)
    return done


def train(
    engine: Engine,
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

    identities = [identity(data, task, a, s, settings.clock) for a, s in zip(algorithms, seeds, strict=True)]
    with ExitStack() as opened:

        def program(chosen: Sequence[int]) -> Program:
            mine = [algorithms[i] for i in chosen], [seeds[i] for i in chosen]
            made: Program = engine.program(data, task, *mine, settings.users, settings.clock)
            opened.callback(made.close)
            return made

        whole = program(range(len(seeds)))
        state, histories, users = restore(whole, folders, identities)
        ongoing = Ongoing(whole, program, settings, list(folders), identities, list(labels), algorithms, histories)
        ongoing.users = users
        ongoing.watch, ongoing.race = watch, race
        return ongoing.run(state)


def known(data: FederatedData, splits: Sequence[str]) -> tuple[str, ...]:
    """The same parts, if the data has them."""
    for split in splits:
        if split not in data.splits:
            raise UnknownName("evaluate", split, data.splits)
    return tuple(splits)
