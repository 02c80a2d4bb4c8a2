"""Runner: train, evaluate, record, checkpoint, stop; and go on where a run was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from fedloom.algorithms import Method
from fedloom.combine.weighting import with_directions
from fedloom.data import FederatedData
from fedloom.engines import Engine, Program, compiled
from fedloom.engines.clock import Clock
from fedloom.errors import DivergedError, UnknownName, require, whole
from fedloom.local.counting import check_rounds
from fedloom.runs.checks import check, check_kinds
from fedloom.runs.lock import alone
from fedloom.runs.monitor import watching
from fedloom.runs.ongoing import Ongoing, Race, Watch
from fedloom.runs.restore import identities, restore
from fedloom.runs.result import Run
from fedloom.runs.resumption import check_resumption
from fedloom.runs.settings import Settings
from fedloom.runs.shared import packed, unpacked
from fedloom.runs.stopping import Stop
from fedloom.tasks import Task
from fedloom.trees import listed


def run(
    data: FederatedData,
    task: Task,
    algorithm: Method,
    *,
    rounds: int = Stop.rounds,
    target: float | None = Stop.target,
    patience: int | None = Stop.patience,
    seconds: float | None = Stop.seconds,
    monitor: str | None = Stop.monitor,
    keep: str | None = Stop.keep,
    until_bytes: float | None = Stop.until_bytes,
    until_clock: float | None = Stop.until_clock,
    evaluate: str | Sequence[str] = ("train", "test"),
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
        rounds, target, patience, seconds, until_bytes, until_clock: when to stop; see :class:`fedloom.runs.Stop`.
        monitor: the column of the history that target, patience and keep look at, such as ``validation_loss``; by
            default the accuracy on validation data, or on test data where there is no validation data. Where clients'
            models differ, that of their own models, ``own_validation_accuracy``: see :mod:`fedloom.measures`.
        keep: the model of which round is kept: ``best``, of the monitored column, or ``last``; by default the best if
            there is patience, and else the last.
        evaluate: the parts of the data on which models are evaluated; the part that is monitored is so in any case.
        every: rounds between evaluations.
        seed: of everything random in the run.
        users: whether each client of an evaluated round is measured before and after its work: on its own test data
            (``users_before_accuracy``, ``users_after_accuracy``), or, where all test data belongs to no client, on
            everybody's (``users_global_before_accuracy``, ``users_global_accuracy``): see :mod:`fedloom.runs.users`.
        clock: on which machines and links it is to be: how long it would take there is measured too, and those that
            are lost or late do not count.
        label: what it is called in progress lines, tables and figures; the task and the data by default.
        directory: the folder that keeps the run. A run that stands there unfinished goes on where it stopped, with the
            same numbers. Its rules for stopping may change; another label, ``every``, ``evaluate`` or ``users`` is
            refused, and so are fewer rounds than are done.
        engine: where it is computed; compiled in this process by default.
        watch: called with the history after every evaluation.
    """
    check_kinds(algorithm, task, data)
    stop = Stop(rounds, seconds, target, patience, monitor, until_bytes, until_clock, keep)
    settings = Settings(stop, known(data, evaluate), every, users=users, clock=clock)
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
    whole("every", settings.every, 1)
    for seed in seeds:
        whole("seed", seed, 0, 2**32 - 1)
    timed = settings.stop.until_clock is None or settings.clock is not None
    require(timed, "until_clock", "left alone without a clock", settings.stop.until_clock)
    settings = watching(settings, algorithms[0], task, data)
    algorithms = [
        with_directions(algorithm.for_clients(len(data), data.client_names), task.directions)
        for algorithm in algorithms
    ]
    for algorithm in algorithms:
        check(algorithm, task, data)
        check_rounds(algorithm.local.batches, settings.stop.rounds)
    require(not settings.users or "test" in data.splits, "users", "left alone: there is no test data", settings.users)

    if (found := engine.follow(data, task, algorithms, seeds, settings.users)) is not None:
        return [unpacked(one, algorithm) for one, algorithm in zip(found, algorithms, strict=True)]
    who = identities(data, task, algorithms, seeds, settings.clock)
    with ExitStack() as opened:

        def program(chosen: Sequence[int]) -> Program:
            mine = [algorithms[i] for i in chosen], [seeds[i] for i in chosen]
            made: Program = engine.program(data, task, *mine, settings.users, settings.clock)
            opened.callback(made.close)
            return made

        for folder in folders:
            if folder is not None:
                opened.enter_context(alone(folder))
        all_in_one = program(range(len(seeds)))
        raced = race is not None  # a race may end at any round
        checks = [partial(check_resumption, label=label, settings=settings, allows_fewer_rounds=raced)
                  for label in labels]  # fmt: skip
        state, histories, users, best = restore(all_in_one, folders, who, checks)
        ongoing = Ongoing(all_in_one, program, settings, list(folders), who, list(labels), algorithms, histories)
        ongoing.users, ongoing.best = users, best
        ongoing.watch, ongoing.race = watch, race
        runs = ongoing.run(state)
        engine.lead([packed(run, ongoing.kept[i]) for i, run in enumerate(runs)])
        return runs


def known(data: FederatedData, splits: str | Sequence[str]) -> tuple[str, ...]:
    """The same parts, if the data has them."""
    splits = listed(splits) if isinstance(splits, str) else splits
    for split in splits:
        if split not in data.splits:
            raise UnknownName("evaluate", split, data.splits)
    return tuple(splits)
