"""Order: what all ranks of a run are told to do, and what each makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedloom.algorithms import Algorithm, Method, Personalised
from fedloom.data import FederatedData
from fedloom.direction import Directions
from fedloom.engines.exchange import SERVER, Along, Exchange, Served
from fedloom.engines.mailbox import Mailbox
from fedloom.engines.rank import rank
from fedloom.engines.world import owners
from fedloom.errors import FedloomError, require
from fedloom.local.counting import check_rounds
from fedloom.mixing import Gossip
from fedloom.mixing.mixer import Identity
from fedloom.runs.checks import check
from fedloom.runs.experiment import Experiment
from fedloom.runs.monitor import watching
from fedloom.runs.prepare import federated
from fedloom.runs.restore import identities
from fedloom.runs.selection import lasts, roster
from fedloom.runs.settings import Settings
from fedloom.tasks import Task


class Refused(FedloomError):
    """An order that cannot be carried out; all ranks know why."""


@dataclass(frozen=True)
class Order:
    """What all ranks are told to do.

    Arguments:
        experiment: as TOML.
        folder: where the run is kept.
        selection, workers: see :mod:`fedloom.runs.selection`; one worker a user where it is not said how many.
        save_every: rounds between checkpoints.
        delays: seconds by which the models of each rank are held back, in turn.
        data_folder: where data sets are.
    """

    experiment: str
    folder: str
    selection: str = "all"
    workers: int | None = None
    save_every: int = 10
    delays: tuple[float, ...] = (0.0,)
    data_folder: str | None = None

    def __post_init__(self) -> None:
        require(self.save_every >= 1, "save_every", "at least 1", self.save_every)


def dispatched(mailbox: Mailbox, write: Callable[[], Order]) -> Order:
    """The order, which rank 0 writes and all others are sent."""
    if mailbox.world.rank:
        [(order, trouble)] = mailbox.hear("order", [0])
    else:
        order, trouble = None, None
        try:
            order = write()
        except (FedloomError, OSError) as error:
            trouble = str(error)
        mailbox.tell(mailbox.world.others, "order", (order, trouble))
    if trouble is not None:
        raise Refused(trouble)
    assert order is not None
    return order


@dataclass(frozen=True)
class Prepared:
    """What every rank makes of an order for itself.

    Arguments:
        experiment, data: what is learned, and from what.
        selection: on whose examples workers train.
        exchange: what this rank does.
        rounds: how many there are at most.
        identity: what makes the run this run and no other.
        settings: when it stops, and what is evaluated.
    """

    experiment: Experiment
    data: FederatedData
    selection: str
    exchange: Exchange
    rounds: int
    identity: dict[str, Any]
    settings: Settings

    @property
    def label(self) -> str:
        """What the run is called."""
        return f"{self.experiment.label_on(self.data.name)}, {self.exchange.mailbox.world.size} ranks"

    @property
    def directions(self) -> Directions:
        """Whether a higher or a lower value is better, for each metric."""
        return self.exchange.rank.task.directions

    def evaluates(self, round: int) -> bool:
        """Whether workers are measured after a round."""
        return round % self.experiment.every == 0 or round == self.rounds

    def users(self, round: int) -> np.ndarray:
        """The user of each worker in the last of so many rounds."""
        if self.selection == "all":
            return np.arange(len(self.exchange.owner))
        return self.exchange.roster(max(0, round - 1))


def prepared(order: Order, mailbox: Mailbox) -> Prepared:
    """An order, prepared; or an :class:`ArgumentError` before anything is computed."""
    experiment = Experiment.from_toml(order.experiment)
    experiment.stop().require_last("over MPI")
    require(experiment.users == "no", "users", "no: what workers do is measured anyway", experiment.users)
    require(experiment.compute is None, "compute", "left alone: time is real here (see --delay)", experiment.compute)
    data = federated(experiment, Path(order.data_folder) if order.data_folder else None)
    for split in experiment.splits:
        require(split in data.splits, "evaluate", f"of the parts that the data has, {', '.join(data.splits)}", split)
    workers = order.workers if order.workers is not None else len(data)
    require(workers < SERVER, "workers", f"fewer than {SERVER:,}", workers)
    seed, sizes = experiment.seed, data.clients["train"].size
    algorithm = experiment.build_algorithm()
    users = roster(order.selection, sizes, workers, algorithm.cohort(len(data)), seed)
    owner = owners(workers, mailbox.world.size)
    task, algorithm = experiment.build_task(data), algorithm.sized(workers)
    telling = ("weighting", "combine", "clip", "topology")
    ways = [f"{name} {way}" for name, way in experiment.given.items() if name in telling]
    called = ", ".join([experiment.algorithm, *ways])
    supported(algorithm, task, called)
    check(algorithm, task, data, workers)
    settings = watching(experiment.settings(), algorithm, task, data)
    mailbox.delay, mailbox.owner = order.delays[mailbox.world.rank % len(order.delays)], owner.tolist()
    way = Served if isinstance(algorithm, Algorithm) else Along
    exchange = way(rank(data, task, algorithm, seed), mailbox, owner, users)
    among = {"ranks": mailbox.world.size, "workers": workers, "selection": order.selection}
    rounds = lasts(order.selection, len(data), workers, experiment.rounds)
    check_rounds(algorithm.local.batches, rounds)
    [who] = identities(data, task, [algorithm], [seed])
    return Prepared(experiment, data, order.selection, exchange, rounds, {**who, **among}, settings)


def supported(algorithm: Method, task: Task, called: str) -> None:
    """Raise an :class:`ArgumentError` unless ranks can do it: what they send each other is models, and nothing else."""
    first = jax.eval_shape(lambda: task.init(jax.random.key(0)))
    if isinstance(algorithm, Algorithm):
        beside = [
            *jax.eval_shape(algorithm.local.client_state, first),
            *jax.eval_shape(algorithm.local.broadcast, first),
        ]
        plain = algorithm.weighting.alone and algorithm.combiner.trusting
        able = plain and not algorithm.personal and not beside
    else:
        able = type(algorithm) is Personalised and isinstance(algorithm.mixer, Gossip | Identity)
    what = (
        "dpa-sgd along a topology that is not drawn anew, local, fedavg, fedsgd or fedprox, the mean weighted by size "
        "or uniform, over MPI (fedloom run knows them all)"
    )
    require(able, "algorithm", what, called)
    overall = [name for name, _ in task.overall]
    require(not overall, "metrics", "means over examples over MPI, not over a whole split", overall)
