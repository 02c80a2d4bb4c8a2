"""Order: what all ranks of a run are told to do, and what each makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedloom.algorithms import Method
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
from fedloom.runs.roster import roster
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
        selection: how clients are selected; ``None`` is as the experiment says.
        workers: the number of workers; ``None`` is one for each client.
        save_every: rounds between checkpoints.
        delays: seconds by which the models of each rank are held back, in turn.
        data_folder: where data sets are.
    """

    experiment: str
    folder: str
    selection: str | None = None
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
        visits: True if there are fewer workers than clients, so that a worker trains on other examples every round.
        exchange: what this rank does.
        rounds: how many there are at most.
        identity: what makes the run this run and no other.
        settings: when it stops, and what is evaluated.
    """

    experiment: Experiment
    data: FederatedData
    visits: bool
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
        return self.exchange.roster(max(0, round - 1)) if self.visits else np.arange(len(self.exchange.owner))


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
    visits, selection = workers < len(data), order.selection or experiment.selection
    if order.selection is not None and not visits:
        experiment = experiment.replace(selection=selection)  # an error if it has no effect
    require(workers < SERVER, "workers", f"fewer than {SERVER:,}", workers)
    seed, sizes = experiment.seed, data.clients["train"].size
    algorithm = experiment.build_algorithm()
    users = roster(selection, sizes, workers, algorithm.cohort(len(data)), seed)
    owner = owners(workers, mailbox.world.size)
    task, algorithm = experiment.build_task(data), algorithm.for_clients(len(data), data.client_names, workers)
    telling = ("weighting", "combine", "clip", "topology")
    ways = [f"{name} {way}" for name, way in experiment.given.items() if name in telling]
    called = ", ".join([experiment.algorithm, *ways])
    supported(algorithm, task, called)
    check(algorithm, task, data, workers)
    settings = watching(experiment.settings(), algorithm, task, data)
    mailbox.delay, mailbox.owner = order.delays[mailbox.world.rank % len(order.delays)], owner.tolist()
    way = Along if algorithm.routing.exchanges_models else Served
    exchange = way(rank(data, task, algorithm, seed), mailbox, owner, users)
    among = {"ranks": mailbox.world.size, "workers": workers, "selection": selection}
    check_rounds(algorithm.local.batches, experiment.rounds)
    [who] = identities(data, task, [algorithm], [seed])
    return Prepared(experiment, data, visits, exchange, experiment.rounds, {**who, **among}, settings)


def supported(method: Method, task: Task, called: str) -> None:
    """Raise an :class:`ArgumentError` unless ranks can run the method by sending each other models and nothing else."""
    first = jax.eval_shape(lambda: task.init(jax.random.key(0)))
    routing, local = method.routing, method.local
    keeps = [*jax.eval_shape(local.client_state, first), *jax.eval_shape(local.broadcast, first)]
    along_graph = isinstance(getattr(routing, "mixer", None), Gossip | Identity) and not routing.memory(first, 1)
    summed = not method.keeps_updates and method.combiner.trusting
    able = not keeps and not local.is_personal and (along_graph if routing.exchanges_models else summed)
    what = (
        "dpa-sgd along a topology that is not drawn anew, local, fedavg, fedsgd or fedprox, the mean weighted by size "
        "or uniform, over MPI (fedloom run knows them all)"
    )
    require(able, "algorithm", what, called)
    overall = [name for name, _ in task.overall]
    require(not overall, "metrics", "means over examples over MPI, not over a whole split", overall)
