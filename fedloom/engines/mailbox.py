"""Mailbox: how ranks send each other models and notes while they train.

One thread beside the training thread does all communication. It takes what is to be sent from a queue, posts
non-blocking sends and receives, and looks after them; so a model is on its way while the next worker trains. It is one
thread that looks and sleeps, not one that sends and one that receives: a blocking call of MPI turns in circles until
it is served, and would take the core that trains. For a moment after something has moved the thread looks without
sleeping, longer while the training thread itself waits and needs no core; then less and less often.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from fedloom.engines.world import World
from fedloom.errors import PeerError, require

FAREWELL = "farewell"
WIDTH = 2**13  # places for workers in a tag
BUSY, EAGER = 2e-4, 2e-2  # seconds of looking without sleep, while the training thread trains and while it waits
SHORTEST, LONGEST = 5e-5, 1e-3  # seconds of sleep, at first and in the end
Address = tuple[int, int]
"""Of a model: round and worker."""


@dataclass(eq=False)
class Letter:
    """A model on its way: where from or to, which, and from when on it may travel."""

    rank: int
    address: Address
    model: np.ndarray
    incoming: bool
    due: float = 0.0
    request: Any = None


@dataclass(eq=False)
class Mailbox:
    """A rank's mailbox; :meth:`close` it in the end.

    Arguments:
        world: the ranks.
        timeout: seconds after which somebody who does not answer is given up.
        delay: seconds that every model is held back before it travels, without holding up training.
        owner: the rank of each worker, where it is known, for messages.
        sent: the bytes that have been sent of each worker's models.
        log: when each model arrived, if somebody wants to know.
    """

    world: World
    timeout: float = 60.0
    delay: float = 0.0
    owner: Sequence[int] = ()
    sent: dict[int, float] = field(default_factory=lambda: defaultdict(int))
    log: dict[Address, float] | None = None

    def __post_init__(self) -> None:
        self._orders: SimpleQueue[Letter | tuple[int, Any] | None] = SimpleQueue()
        self._busy = BUSY
        self._changed = threading.Condition()
        self._models: dict[Address, np.ndarray] = {}
        self._awaited: dict[Address, int] = {}
        self._notes: dict[tuple[str, int], deque[Any]] = {}
        self._farewells: dict[int, str] = {}
        self._lost: set[int] = set()
        self._moving: list[Letter] = []
        self._telling: list[Any] = []
        self._open = True
        self._trouble: Exception | None = None
        self._tags = self.world.letters.Get_attr(_tag_bound()) // WIDTH
        self._thread = threading.Thread(target=self._work, name="mailbox", daemon=True)
        self._thread.start()

    def post(self, model: np.ndarray, to: int, address: Address) -> None:
        """Send a model, which must not change any more; returns at once."""
        self.sent[address[1]] += model.nbytes
        self._orders.put(Letter(to, address, model, incoming=False, due=time.monotonic() + self.delay))

    def expect(self, source: int, address: Address, room: np.ndarray) -> None:
        """Make room for a model that will come; returns at once."""
        self._awaited[address] = source
        self._orders.put(Letter(source, address, room, incoming=True))

    def arrived(self, address: Address) -> bool:
        """Whether a model that was expected is here."""
        return address in self._models

    def take(self, addresses: Iterable[Address]) -> dict[Address, np.ndarray]:
        """Models that were expected, once all are here."""
        wanted = list(addresses)
        self._wait(lambda: [(self._awaited[a], a[1]) for a in wanted if a not in self._models])
        for address in wanted:
            del self._awaited[address]
        return {address: self._models.pop(address) for address in wanted}

    def tell(self, to: int | Iterable[int], kind: str, note: Any = None) -> None:
        """Send a note; returns at once."""
        for rank in [to] if isinstance(to, int) else to:
            self._orders.put((rank, (kind, note)))

    def hear(self, kind: str, ranks: Sequence[int], patience: float = 1.0) -> list[Any]:
        """The next note of a kind from each of some ranks, once all are here; with more patience from those that may
        themselves be waiting for others.
        """
        self._wait(lambda: [(rank, None) for rank in ranks if not self._notes.get((kind, rank))], patience)
        return [self._notes[kind, rank].popleft() for rank in ranks]

    def leave(self, reason: str, patience: float) -> None:
        """Tell all others who has left and why, and wait a little until those that are not lost leave too."""
        until = time.monotonic() + patience
        self.tell(self.world.others, FAREWELL, reason)
        with self._changed:
            while self._trouble is None and set(self.world.others) - self._farewells.keys() - self._lost:
                if not self._changed.wait(max(0.0, until - time.monotonic())):
                    break
        self._open = False
        self._thread.join(0.5)  # models for who is lost would be waited for in vain

    def close(self) -> None:
        """Send what is left to send, and end."""
        self._open = False
        self._thread.join(self.timeout)
        if self._thread.is_alive():
            late = sorted({letter.rank for letter in self._moving})
            raise PeerError(f"{called(late)} did not take what was sent within {self.timeout:g} s")

    def _wait(self, late: Callable[[], list[tuple[int, int | None]]], patience: float = 1.0) -> None:
        until = time.monotonic() + patience * self.timeout
        with self._changed:
            if late():
                self._busy = EAGER
                self._orders.put(None)
            while missing := late():
                if self._trouble is not None:
                    raise PeerError(f"rank {self.world.rank} cannot communicate any more: {self._trouble}")
                if self._farewells:
                    raise PeerError(next(iter(self._farewells.values())))
                left = until - time.monotonic()
                if left <= 0:
                    raise PeerError(self._unanswered(missing))
                self._changed.wait(left)
            self._busy = BUSY

    def _unanswered(self, missing: list[tuple[int, int | None]]) -> str:
        ranks = sorted({rank for rank, _ in missing})
        self._lost |= set(ranks)
        known = sorted({worker for _, worker in missing if worker is not None and worker < len(self.owner)})
        of = known or [worker for worker, rank in enumerate(self.owner) if rank in ranks]
        whose = f" ({'worker' if len(of) == 1 else 'workers'} {', '.join(map(str, of))})" if of else ""
        return f"{called(ranks)}{whose} did not answer within {self.timeout:g} s"

    def _work(self) -> None:
        """What the thread does until the mailbox is closed and everything is sent."""
        moved, pause = time.monotonic(), SHORTEST
        try:
            while self._open or self._outgoing():
                rest = 0.0 if time.monotonic() - moved < self._busy else pause
                if self._order(rest) | self._look() | self._listen():
                    moved, pause = time.monotonic(), SHORTEST
                else:
                    pause = min(1.5 * pause, LONGEST)
        except Exception as error:  # whatever MPI raises; the training thread tells it
            with self._changed:
                self._trouble = error
                self._changed.notify_all()

    def _outgoing(self) -> bool:
        return not self._orders.empty() or bool(self._telling) or any(not one.incoming for one in self._moving)

    def _order(self, pause: float) -> bool:
        """Take the next order, or wait for it a little; no order is one to look now."""
        try:
            order = self._orders.get(timeout=pause) if pause else self._orders.get_nowait()
        except Empty:
            return False
        if isinstance(order, Letter):
            self._moving.append(order)
        elif order is not None:
            self._telling.append(self.world.notes.isend(order[1], order[0]))
        return True

    def _look(self) -> bool:
        """Start what is due, and put down what has arrived."""
        now, done = time.monotonic(), []
        for letter in self._moving:
            if letter.request is None and letter.due <= now:
                letter.request = self._started(letter)
            if letter.request is not None and letter.request.Test():
                done.append(letter)
        self._telling = [request for request in self._telling if not request.test()[0]]
        if done:
            self._moving = [letter for letter in self._moving if letter not in done]
            with self._changed:
                self._models |= {letter.address: letter.model for letter in done if letter.incoming}
                self._changed.notify_all()
            if self.log is not None:
                self.log |= {letter.address: time.monotonic() for letter in done if letter.incoming}
        return bool(done)

    def _started(self, letter: Letter) -> Any:
        round, worker = letter.address
        tag = round % self._tags * WIDTH + worker
        if letter.incoming:
            return self.world.letters.Irecv(letter.model, letter.rank, tag)
        return self.world.letters.Isend(letter.model, letter.rank, tag)

    def _listen(self) -> bool:
        """Put down the note that has come, if one has."""
        message = self.world.notes.improbe()
        if message is None:
            return False
        status = _status()
        kind, note = message.recv(status=status)
        with self._changed:
            if kind == FAREWELL:
                self._farewells[status.Get_source()] = note
            else:
                self._notes.setdefault((kind, status.Get_source()), deque()).append(note)
            self._changed.notify_all()
        return True


def called(ranks: Sequence[int]) -> str:
    """Some ranks in words.

    >>> called([1]), called([0, 2])
    ('rank 1', 'ranks 0, 2')
    """
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"


def checked_delays(text: str) -> list[float]:
    """Seconds by which models are held back, one for each rank in turn.

    >>> checked_delays("0,0.3")
    [0.0, 0.3]
    """
    try:
        delays = [float(part) for part in text.split(",")]
    except ValueError:
        delays = [-1.0]
    require(min(delays) >= 0, "delay", "seconds, at least 0, or several with commas", text)
    return delays


def _tag_bound() -> int:
    from mpi4py import MPI

    return int(MPI.TAG_UB)


def _status() -> Any:
    from mpi4py import MPI

    return MPI.Status()
