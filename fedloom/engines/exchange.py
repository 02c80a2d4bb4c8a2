"""Exchange: what ranks do and send in a round: along connections, or to a server and back."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from fedloom.algorithms.method import Method, RoundState
from fedloom.combine.replies import Replies
from fedloom.engines.mailbox import WIDTH, Address, Mailbox
from fedloom.engines.rank import Rank
from fedloom.engines.schedule import PEERS, stream
from fedloom.tasks.task import Variables
from fedloom.trees import flatten, stack, unflatten

if TYPE_CHECKING:
    from jaxtyping import Float, Int

Roster = Callable[[int], np.ndarray]
"""Round → the user on whose examples each worker trains; -1 is nobody."""
SERVER = WIDTH - 1  # the place of the server's model in an address


@dataclass(eq=False)
class Exchange:
    """What a rank does, round by round, with the others.

    Arguments:
        rank, mailbox: what trains, and what sends.
        owner: the rank of each worker.
        roster: who trains on whose examples.
        trained, waited: seconds that each worker trained, but for the first time, which compiles, and that its rank
            waited for what it needed.
        squares: ‖update‖² of each worker in its last round.
    """

    rank: Rank
    mailbox: Mailbox
    owner: np.ndarray
    roster: Roster
    trained: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    waited: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    squares: dict[int, float] = field(default_factory=dict)
    _compiled: bool = False

    @property
    def me(self) -> int:
        """The number of this rank."""
        return self.mailbox.world.rank

    @property
    def mine(self) -> list[int]:
        """The workers of this rank."""
        return [int(worker) for worker in np.flatnonzero(self.owner == self.me)]

    @property
    def models(self) -> dict[int, np.ndarray]:
        """The model of each worker of this rank, between rounds."""
        raise NotImplementedError

    def moved(self, round: int) -> int:
        """How many models all workers send in a round."""
        raise NotImplementedError

    def advance(self, first: int, rounds: int) -> None:
        """Do so many rounds."""
        raise NotImplementedError

    def gathered(self, round: int) -> Variables | None:
        """The outcome after so many rounds, at rank 0."""
        raise NotImplementedError

    def arrays(self) -> dict[str, np.ndarray]:
        """What this rank must remember between rounds."""
        raise NotImplementedError

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from what was remembered."""
        raise NotImplementedError

    def work(self, worker: int, user: int, model: np.ndarray, round: int, users: np.ndarray) -> np.ndarray:
        """A worker's reply."""
        view, start = self.rank.view([int(users[w]) for w in self.mine if users[w] >= 0]), time.perf_counter()
        reply, self.squares[worker] = self.rank.train(view, user, model, round)
        self.trained[worker] += time.perf_counter() - start if self._compiled else 0.0
        self._compiled = True
        return reply

    def taken(self, worker: int, addresses: Sequence[Address]) -> dict[Address, np.ndarray]:
        """What has come for a worker, and how long that was waited for."""
        start = time.perf_counter()
        found = self.mailbox.take(addresses)
        self.waited[worker] += time.perf_counter() - start
        return found


@dataclass(frozen=True)
class Links:
    """A round's connections.

    Arguments:
        index, share: whom each worker averages, itself first, and how much each counts.
    """

    index: Int[np.ndarray, "K p"]
    share: Float[np.ndarray, "K p"]

    def needs(self, worker: int) -> list[int]:
        """The others whose models a worker averages."""
        pairs = zip(self.index[worker], self.share[worker], strict=True)
        return sorted({int(other) for other, share in pairs if share != 0 and other != worker})

    def wanted(self, worker: int) -> list[int]:
        """The others that average a worker's model."""
        at = (self.index == worker) & (self.share != 0)
        return [int(other) for other in np.flatnonzero(at.any(1)) if other != worker]


def connections(algorithm: Method, workers: int) -> list[Links]:
    """The connections of one round after another, in turn; everybody alone where nobody averages."""
    mixer = getattr(algorithm.routing, "mixer", None)
    if mixer is None or mixer.graph is None:
        return [Links(np.arange(workers)[:, None], np.ones((workers, 1), np.float32))]
    return [Links(*both) for both in zip(np.asarray(mixer.index), np.asarray(mixer.share), strict=True)]


@dataclass(eq=False)
class Along(Exchange):
    """Every worker has its own model, and averages its neighbours'.

    A worker goes on as soon as what it averages is here. Those come first whose models others wait for, so that the
    way of their models is hidden behind the training of the rest.
    """

    def __post_init__(self) -> None:
        start = self.rank.flat(self.rank.first)
        self._models = dict.fromkeys(self.mine, start)
        self._made: dict[int, np.ndarray] = {}  # what is known of the models trained in the round that is to be mixed
        self._matrices = connections(self.rank.algorithm, len(self.owner))

    @property
    def models(self) -> dict[int, np.ndarray]:
        """The model of each worker of this rank, between rounds."""
        return self._models

    def moved(self, round: int) -> int:
        """A model along each connection."""
        key = lambda: stream(self.rank.seed, PEERS, round)  # noqa: E731
        return self.rank.algorithm.routing.models_sent(len(self.owner), round, key)

    def gathered(self, round: int) -> Variables | None:
        """Everybody's model, one beside the other."""
        if self.me != 0:
            for worker, model in self._models.items():
                self.mailbox.post(model, 0, (round, worker))
            return None
        away = [(round, int(worker)) for worker in np.flatnonzero(self.owner != 0)]
        for address in away:
            self.mailbox.expect(int(self.owner[address[1]]), address, np.empty_like(self._models[0]))
        every = self._models | {worker: model for (_, worker), model in self.mailbox.take(away).items()}
        return stack([self.rank.whole(every[worker]) for worker in range(len(self.owner))])

    def arrays(self) -> dict[str, np.ndarray]:
        """All models."""
        return {str(worker): model for worker, model in self._models.items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from those models."""
        self._models = {worker: arrays[str(worker)] for worker in self.mine}

    def advance(self, first: int, rounds: int) -> None:
        """Do so many rounds."""
        self._expect(first)
        for round in range(first, first + rounds):
            former, made, users = self._made, dict[int, np.ndarray](), self.roster(round)
            self.squares = {}
            if round + 1 < first + rounds:  # a neighbour may be a round ahead
                self._expect(round + 1)
            for worker in self._turns(round, mixes=round > first):
                model = self._models[worker] if round == first else self._mixed(worker, round - 1, former)
                user = int(users[worker])
                made[worker] = self.work(worker, user, model, round, users) if user >= 0 else model
                for to in sorted({int(self.owner[w]) for w in self.links(round).wanted(worker)} - {self.me}):
                    self.mailbox.post(made[worker], to, (round, worker))
            self._made = made
        last = first + rounds - 1
        self._models = {worker: self._mixed(worker, last, self._made) for worker in self._turns(last + 1, mixes=True)}
        self._made = {}

    def links(self, round: int) -> Links:
        """The connections of a round."""
        return self._matrices[round % len(self._matrices)]

    def _expect(self, round: int) -> None:
        """Make room for what others will send in a round."""
        like = self._models[self.mine[0]]
        for other in sorted({other for worker in self.mine for other in self.links(round).needs(worker)}):
            if self.owner[other] != self.me:
                self.mailbox.expect(int(self.owner[other]), (round, other), np.empty_like(like))

    def _turns(self, round: int, mixes: bool) -> Iterator[int]:
        """The workers of this rank, each when it can go on with a round, those that others wait for first."""
        inside = lambda worker: all(self.owner[w] == self.me for w in self.links(round).wanted(worker))  # noqa: E731
        left = sorted(self.mine, key=inside)
        while left:
            ready = (worker for worker in left if not mixes or not self._missing(worker, round - 1))
            worker = next(ready, left[0])
            left.remove(worker)
            yield worker

    def _missing(self, worker: int, round: int) -> list[Address]:
        needs = [(round, other) for other in self.links(round).needs(worker) if other not in self._made]
        return [address for address in needs if not self.mailbox.arrived(address)]

    def _mixed(self, worker: int, round: int, made: dict[int, np.ndarray]) -> np.ndarray:
        """A worker's model after the exchange of a round."""
        links = self.links(round)
        if links.index.shape[1] == 1:
            return made[worker]
        away = [(round, other) for other in links.needs(worker) if other not in made]
        made |= {other: model for (_, other), model in self.taken(worker, away).items()}
        return self.rank.mix([made[int(other)] for other in links.index[worker]], links.share[worker])


@dataclass(eq=False)
class Served(Exchange):
    """Rank 0 has the model: others are sent it, train, and reply; rank 0 makes the server's step."""

    norm: float = 0.0

    def __post_init__(self) -> None:
        algorithm = self.rank.algorithm
        self.algorithm = algorithm
        self.state: RoundState = algorithm.init(self.rank.first, len(self.rank.store.data))
        self.model = self.rank.flat(self.rank.first)

    @property
    def models(self) -> dict[int, np.ndarray]:
        """The one model, for each worker of this rank."""
        return dict.fromkeys(self.mine, self.model)

    def moved(self, round: int) -> int:
        """As many as take part."""
        return int((self.roster(round) >= 0).sum())

    def gathered(self, round: int) -> Variables | None:  # noqa: ARG002
        """The one model."""
        return self.state.variables if self.me == 0 else None

    def arrays(self) -> dict[str, np.ndarray]:
        """The server's state at rank 0, the model elsewhere."""
        return flatten(self.state) if self.me == 0 else {"model": self.model}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from that."""
        if self.me == 0:
            self.state = unflatten(self.state, arrays)
            self.model = self.rank.flat(self.state.variables)
        else:
            self.model = arrays["model"]

    def advance(self, first: int, rounds: int) -> None:
        """Do so many rounds."""
        for round in range(first, first + rounds):
            users = self.roster(round)
            busy = [int(worker) for worker in np.flatnonzero(users >= 0)]
            away = [worker for worker in busy if self.owner[worker] != self.me]
            if self.me == 0:
                for worker in away:
                    self.mailbox.expect(int(self.owner[worker]), (round, worker), np.empty_like(self.model))
            made = {}
            for worker in busy:
                if self.owner[worker] == self.me:
                    made[worker] = self.work(worker, int(users[worker]), self.model, round, users)
                    if self.me != 0:
                        self.mailbox.post(made[worker], 0, (round, worker))
            self._renew(round, users, busy, made)

    def _renew(self, round: int, users: np.ndarray, busy: list[int], made: dict[int, np.ndarray]) -> None:
        """Make the next round's model at rank 0, and bring it to all."""
        address = (round + 1, SERVER)
        if self.me == 0:
            away = [(round, worker) for worker in busy if worker not in made]
            made |= {worker: reply for (_, worker), reply in self.taken(0, away).items()}
            weights = self._weights(users[busy])
            total = sum((made[worker] for worker in busy), np.zeros_like(self.model))
            self.state, self.norm = self.rank.step(self.state, total, float(weights.sum()))
            self.model = self.rank.flat(self.state.variables)
            for rank in self.mailbox.world.others:
                self.mailbox.post(self.model, rank, address)
        else:
            self.mailbox.expect(0, address, np.empty_like(self.model))
            self.model = self.taken(self.mine[0], [address])[address]

    def _weights(self, users: np.ndarray) -> np.ndarray:
        """How much each reply counts; replies come multiplied by it."""
        sizes = jnp.asarray(self.rank.store.data.clients["train"].size[users], jnp.float32)
        return np.asarray(self.algorithm.routing.weigh(Replies(sizes, jnp.ones(len(users), bool), {})))
