"""Clock: how many seconds a run would take on given machines and links. Nothing is waited for; it is pure and seeded.

Worker k takes s_k seconds a step; its link has a latency of l_k seconds and carries b_k bytes a second, shared by the
messages that pass it at once. A message of n bytes from i to j, one of d_i out of i and of d_j into j, takes

    max(l_i, l_j) + n · max(d_i / b_i, d_j / b_j)

A server's round ends with its slowest participant: everybody is sent the model, works, and sends its own back,

    T ← T + max_k (down_k + steps_k·s_k + up_k)

while a peer waits for its neighbours alone, which may be ahead of others or behind:

    t_k ← max(c_k, max_{i ∈ N(k)} (c_i + message_ik)),   c_k = t_k + steps_k·s_k

A participant may be lost in a round, with some probability: it does nothing. A server gives up those who have not
answered at its deadline, lost or late, and averages the others'. A peer waits for late neighbours, but goes on without
a lost one at its own deadline; the lost one is away as long as that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.errors import choose, require
from fedloom.quantity import Fixed, Quantity, quantity

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

COMPUTE, LATENCY, BANDWIDTH, LOST = range(4)  # what random numbers are for
LATE = ("dropped", "stopped")
MOST = 2**30  # groups of steps: more than any client takes


@dataclass(frozen=True)
class Clock:
    """Machines and links; build it with :func:`clock`."""

    compute: Quantity
    latency: Quantity
    bandwidth: Quantity
    server_bandwidth: float
    lost: float
    deadline: float | None
    seed: int
    late: str = "dropped"

    @property
    def stops(self) -> bool:
        """True if clients stop in time and send what they have."""
        return self.late == "stopped" and self.deadline is not None

    def machines(self, workers: int, round: int) -> Machines:
        """What everybody has in a round."""
        of = lambda what, purpose: what.of(workers, round, [self.seed, purpose])  # noqa: E731
        absent = np.random.default_rng([self.seed, LOST, round]).random(workers) < self.lost
        return Machines(of(self.compute, COMPUTE), of(self.latency, LATENCY), of(self.bandwidth, BANDWIDTH), ~absent)

    def served(
        self,
        cohort: Int[np.ndarray, " m"],
        steps: Int[np.ndarray, " m"],
        message: Message,
        workers: int,
        round: int,
        group: int = 1,
    ) -> tuple[Float[np.ndarray, " m"], float]:
        """Return the seconds after which each client's reply reaches the server, infinite where it never will be in
        time; and the seconds after which the round ends.

        Arguments:
            cohort: the clients that take part.
            steps: the steps of each, if it is not stopped.
            message: the bytes each way.
            workers: the number of all clients.
            round: the number of the round.
            group: the number of steps between two moments at which a client can stop.
        """
        has = self.machines(workers, round)
        ways, taken = self._ways(has, cohort, len(cohort), message), steps
        if self.stops:
            taken = np.minimum(steps, group * self._groups(has, cohort, ways, group))
        took = np.where(has.there[cohort], ways + taken * has.compute[cohort], np.inf)
        took = np.where((taken == 0) & (steps > 0), np.inf, took)
        if self.deadline is None:
            return took, float(took.max(initial=0.0))
        return np.where(took <= self.deadline, took, np.inf), min(float(took.max(initial=0.0)), self.deadline)

    def possible(
        self, clients: Int[np.ndarray, ...], m: int, message: Message, workers: int, round: int, group: int
    ) -> Int[np.ndarray, ...]:
        """Return how many groups of steps each client has time for before the deadline, its messages included.

        Arguments:
            clients: the clients; -1 is none.
            m: the number of clients in the round.
            message: the bytes each way.
            workers: the number of all clients.
            round: the number of the round.
            group: the number of steps between two moments at which a client can stop.
        """
        has = self.machines(workers, round)
        return self._groups(has, clients, self._ways(has, clients, m, message), group)

    def _ways(self, has: Machines, clients: np.ndarray, m: int, message: Message) -> Float[np.ndarray, ...]:
        """Return the seconds that each client's messages take."""
        if not message.up:
            return np.zeros(clients.shape)
        each = np.maximum(m / self.server_bandwidth, 1 / has.bandwidth[clients])
        ways: np.ndarray = 2 * has.latency[clients] + (message.down + message.up) * each
        return ways

    def _groups(self, has: Machines, clients: np.ndarray, ways: np.ndarray, group: int) -> Int[np.ndarray, ...]:
        """Return the number of groups of steps for which there is time."""
        assert self.deadline is not None
        one = group * has.compute[clients]
        left = self.deadline - ways
        found = np.where(left < 0, 0, np.floor(np.divide(left, one, out=np.full(left.shape, np.inf), where=one > 0)))
        found = np.clip(found, 0, MOST).astype(np.int64)
        return np.maximum(found - (ways + found * one > self.deadline), 0)

    def exchanged(
        self,
        ready: Float[np.ndarray, " K"],
        steps: Int[np.ndarray, " K"],
        heard: Bool[np.ndarray, "K K"],
        size: int,
        round: int,
    ) -> Float[np.ndarray, " K"]:
        """When each peer can begin its next round.

        Arguments:
            ready: when each began this one.
            steps: that each takes.
            heard: whose messages each waits for: [k, i], never its own.
            size: the bytes of a message.
        """
        has = self.machines(len(ready), round)
        done = ready + np.where(has.there, steps * has.compute, self.deadline or 0.0)
        passes = heard & has.there & has.there[:, None]
        out, into = passes.sum(0), passes.sum(1)
        k, i = np.nonzero(passes)
        message = np.maximum(has.latency[i], has.latency[k]) + size * np.maximum(
            out[i] / has.bandwidth[i], into[k] / has.bandwidth[k]
        )
        ahead = done.copy()
        np.maximum.at(ahead, k, done[i] + message)
        if self.deadline is not None:
            gone = (heard & ~has.there).any(1) & has.there
            ahead = np.where(gone, np.maximum(ahead, done + self.deadline), ahead)
        return ahead

    def describe(self) -> dict[str, Any]:
        """What it is made of."""
        return {"clock": repr(self)}


@dataclass(frozen=True)
class Message:
    """The bytes that are sent to a participant in a round, and those that it sends back."""

    down: int
    up: int


@dataclass(frozen=True)
class Passed:
    """What has passed by the clock since a run began.

    Arguments:
        now: the seconds after which all that happened had happened.
        ready: those after which each worker was done.
        up, down: the bytes that each worker sent and was sent.
    """

    now: float
    ready: Float[np.ndarray, " K"]
    up: Int[np.ndarray, " K"]
    down: Int[np.ndarray, " K"]


def nothing(workers: int) -> Passed:
    """Before a run."""
    return Passed(0.0, np.zeros(workers), np.zeros(workers, np.int64), np.zeros(workers, np.int64))


def exact_sum(counts: Int[np.ndarray, " K"]) -> int:
    """Return the sum of numbers of 64 bits, also where it has more.

    >>> exact_sum(np.array([2**62, 2**62, 2**62]))
    13835058055282163712
    """
    return (int((counts >> 32).sum()) << 32) + int((counts & (2**32 - 1)).sum())


@dataclass(frozen=True)
class Machines:
    """Everybody's seconds a step, latency and bandwidth in a round, and who is there."""

    compute: Float[np.ndarray, " K"]
    latency: Float[np.ndarray, " K"]
    bandwidth: Float[np.ndarray, " K"]
    there: Bool[np.ndarray, " K"]


def clock(
    compute: float | str | Quantity,
    *,
    latency: float | str | Quantity = 0.0,
    bandwidth: float | str | Quantity = float("inf"),
    server_bandwidth: float = float("inf"),
    lost: float = 0.0,
    deadline: float | None = None,
    seed: int = 0,
    late: str = "dropped",
) -> Clock:
    """Return a clock that tells how long a run would take. For what a quantity can be see :mod:`fedloom.quantity`.

    Arguments:
        compute: seconds that a worker takes for a step.
        latency: seconds from sending a message to its arrival, beside what its bytes take.
        bandwidth: bytes a second through a worker's link.
        server_bandwidth: bytes a second through the server's.
        lost: the probability that a worker is lost in a round.
        deadline: seconds after which the server, or a peer, no longer waits for an answer.
        seed: of everything random in it.
        late: what becomes of a client that would miss a server's deadline: ``dropped``, its update does not count; or
            ``stopped``, it stops in time and sends what it has.

    >>> clock(0.1, lost=0.2)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: deadline must be given where workers are lost, or nobody would ever go on, but is None
    """
    require(server_bandwidth > 0, "server_bandwidth", "above 0", server_bandwidth)
    require(0 <= lost < 1, "lost", "at least 0 and below 1", lost)
    require(deadline is None or deadline > 0, "deadline", "above 0", deadline)
    needed = lost == 0 or deadline is not None
    require(needed, "deadline", "given where workers are lost, or nobody would ever go on", deadline)
    choose("late", late, dict.fromkeys(LATE))
    require(late == LATE[0] or deadline is not None, "late", "left alone without a deadline", late)
    speed, delay = quantity("compute", compute), quantity("latency", latency)
    for name, made in (("compute", speed), ("latency", delay)):
        require(made != Fixed(float("inf")), name, "finite", float("inf"))
    return Clock(
        speed, delay, quantity("bandwidth", bandwidth, least=1.0), server_bandwidth, lost, deadline, seed, late
    )
