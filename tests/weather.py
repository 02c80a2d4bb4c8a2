"""Weather: the real server and participants in one deterministic process, under seeded delays, losses, crashes and full
disks. Time passes only when everybody waits.
"""

from __future__ import annotations

import asyncio
import errno
import random
import sqlite3
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import fedloom as fl
from fedloom.algorithms import RoundState
from fedloom.federation.arithmetic import Arithmetic, Contribution, arithmetic
from fedloom.federation.coordinator import Coordinator
from fedloom.federation.course import Course
from fedloom.federation.disk import Disk, digest
from fedloom.federation.journal import Journal
from fedloom.federation.outbox import Trained
from fedloom.federation.participant import Lost, Participant
from fedloom.federation.rules import Rules
from fedloom.federation.schema import Schema, Unfit
from fedloom.federation.service import Gone, Service
from fedloom.federation.wire import decoded
from fedloom.federation.wire_pb2 import Beat, Chunk, Order, Place, Update, Verdict, Want, Welcome
from fedloom.runs.stopping import Stop
from fedloom.tasks.task import Task, Variables
from fedloom.trees import flatten

SIZE, CLEAR = 3, 60.0  # numbers of the model; seconds after which the weather is fine


class Loop(asyncio.BaseEventLoop):
    """An event loop whose time passes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._selector = self

    def time(self) -> float:
        return self.now

    def select(self, timeout: float | None) -> list[Any]:
        assert timeout is not None, "everybody waits for nothing"
        self.now += timeout
        return []

    def _process_events(self, events: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class Crash(BaseException):
    """A process that is no more."""


def database(owner: object, place: str | Path = ":memory:") -> sqlite3.Connection:
    """A database, closed when whoever has it is gone."""
    connection = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
    weakref.finalize(owner, connection.close)
    return connection


class Memory(Disk):
    """A disk in memory. What was not flushed when its owner crashed may be cut off or garbled; writes may fail."""

    def __init__(self, fate: Callable[[str], None]) -> None:
        self.files: dict[str, bytes] = {}
        self.folder, self.reach = Path("memory"), fate

    def write(self, name: str, content: bytes) -> None:
        self.reach("a file is begun")
        self.reach("a file is written")
        self.files[name] = bytes(content)
        self.reach("a file is named")

    def append(self, name: str, start: int, content: bytes) -> None:
        self.reach("a file grows")
        self.files[name] = self.files.get(name, b"")[:start] + content

    def sync(self, name: str) -> None:
        pass

    def rename(self, old: str, new: str) -> None:
        self.reach("a file is to be named")
        self.files[new] = self.files.pop(old)
        self.reach("a file is named")

    def read(self, name: str, start: int = 0, most: int | None = None) -> bytes:
        try:
            content = self.files[name]
        except KeyError:
            raise FileNotFoundError(name) from None
        return content[start:] if most is None else content[start : start + most]

    def size(self, name: str) -> int | None:
        return len(self.files[name]) if name in self.files else None

    def digest(self, name: str) -> str:
        return digest(self.read(name))

    def remove(self, name: str) -> None:
        self.files.pop(name, None)

    def names(self) -> list[str]:
        return sorted(self.files)

    def crash(self, draw: random.Random) -> None:
        """Lose some of what was not flushed."""
        for name in [name for name in self.files if name.endswith(".part")]:
            content = self.files[name]
            kept = draw.randrange(len(content) + 1)
            self.files[name] = content[:kept] + bytes(draw.choice([0, len(content) - kept]))


def never(*_: Any) -> Any:
    raise AssertionError


TINY = Task("tiny", lambda _: Variables({"w": jnp.zeros(SIZE)}, {}), never, never)


@cache
def tiny(fraction: float) -> Arithmetic:
    """The server's part of federated averaging of the tiny model."""
    return arithmetic(TINY, fl.fedavg(fraction=fraction), 0)


def computed(number: int, round: int, model: np.ndarray, turns: float) -> np.ndarray:
    """What a participant's work gives: any function will do that depends on everything."""
    step = np.sin(np.arange(SIZE, dtype=np.float32) * (number + 1) + round + np.float32(turns))
    return (np.float32(0.1) * (step - model)).astype(np.float32)


HUGE = 1e14  # what a liar sends: numbers that are believed one by one, and of which no model can be made


def loss(state: RoundState) -> dict[str, float]:
    """What a server measures: (‖w‖²)² in float32, which is infinite for a model that a liar has moved."""
    square = np.sum(flatten(state.variables)["params.w"] ** 2)
    with np.errstate(over="ignore"):
        return {"test_loss": float(square**2)}


@dataclass
class Worker:
    """Local work that remembers how often it counted.

    Arguments:
        arithmetic: the server's part of the algorithm.
        lies: (number, round) of the updates that are a lie.
    """

    arithmetic: Arithmetic
    lies: frozenset[tuple[int, int]] = frozenset()
    number: int = -1
    examples: int = 0

    @property
    def model_schema(self) -> Schema:
        return self.arithmetic.model_schema

    @property
    def update_schema(self) -> Schema:
        return self.arithmetic.update_schema

    def prepare(self, welcome: Welcome) -> None:
        self.number, self.examples = welcome.number, 10 * (welcome.number + 1)

    def train(
        self,
        round: int,
        model: Mapping[str, np.ndarray],
        kept: Mapping[str, np.ndarray],
        seconds: float | None = None,  # noqa: ARG002
    ) -> Trained:
        turns = float(kept["turns"]) if kept else 0.0
        update = {"update.params.w": computed(self.number, round, model["variables.params.w"], turns)}
        if (self.number, round) in self.lies:
            update["update.params.w"] = np.full(SIZE, HUGE, np.float32)
        return Trained(update, self.examples, {}, {"accuracy": 1.0, "count": 2.0}, {"turns": np.float32(turns + 1)})


@dataclass
class Weather:
    """How bad things are.

    Arguments:
        lost, twice: the shares of calls that are lost and that arrive twice.
        delay: seconds that a message takes at most.
        broken: breaks of a connection, a second.
        crashes: of the server and of each participant, a second.
        full: the share of the time in which a disk is full.
        moments: the share of moments between two changes of the disk at which its owner crashes.
    """

    lost: float = 0.0
    twice: float = 0.0
    delay: float = 0.05
    broken: float = 0.0
    crashes: float = 0.0
    full: float = 0.0
    moments: float = 0.0


def forecast(seed: int) -> tuple[Weather, dict[str, Any]]:
    """The weather of a seed, and a world for it: all must count, or some of many suffice."""
    draw = random.Random(seed)
    weather = Weather(
        lost=draw.choice([0, 0.1, 0.3]), twice=draw.choice([0, 0.2]), delay=draw.choice([0.01, 0.2, 2.0]),
        broken=draw.choice([0, 0.2]), crashes=draw.choice([0, 0.05, 0.3]), full=draw.choice([0, 0.1, 0.3]),
        moments=draw.choice([0, 0.02, 0.1]),
    )  # fmt: skip
    if draw.random() < 0.5:
        return weather, {}
    rules = Rules(begin=3, over=1.3, quorum=0.5, deadline=10.0, patience=2.0, beat=1.0)
    return weather, {"participants": draw.choice([4, 6]), "rules": rules, "fraction": draw.choice([0.5, 1.0])}


@dataclass
class World:
    """A server, its participants, and the weather between them."""

    seed: int
    weather: Weather
    participants: int = 3
    rounds: int = 4
    rules: Rules = field(default_factory=lambda: Rules(begin=3, quorum=1.0, deadline=20.0, patience=3.0))
    fraction: float = 1.0
    lies: frozenset[tuple[int, int]] = frozenset()

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.arithmetic = tiny(self.fraction)
        self.connection = database(self)
        self.disk = Memory(self.fate)
        self.disks = [Memory(self.fate) for _ in range(self.participants)]
        self.service: Service | None = None
        self.doomed = asyncio.Event()
        self.lines: set[Wire] = set()
        self.events: list[tuple[float, str, dict[str, Any]]] = []
        self.crashed, self.ended_at = 0, 0.0
        self.finals: dict[int, np.ndarray] = {}

    @property
    def fine(self) -> bool:
        """Whether the weather has cleared."""
        return asyncio.get_running_loop().time() > CLEAR

    def fate(self, name: str) -> None:
        """What happens at a moment between two changes of a disk."""
        if self.fine:
            return
        if self.draw.random() < self.weather.moments:
            raise Crash(name)
        if self.draw.random() < self.weather.full:
            if name.startswith("before "):
                raise sqlite3.OperationalError("database or disk is full")
            if "grows" in name or "begun" in name or "written" in name or "to be" in name:
                raise OSError(errno.ENOSPC, "No space left on device")

    async def pass_by(self) -> None:
        """A message is under way."""
        await asyncio.sleep(self.draw.random() * self.weather.delay)

    async def compute(self, job: Callable[[], Any]) -> Any:
        """Something long."""
        await asyncio.sleep(self.draw.random() * 0.5)
        return job()

    async def serve(self) -> None:
        """The server's life: it crashes, and comes back."""
        loop = asyncio.get_running_loop()
        while True:
            self.note("serve")
            self.service = None
            try:
                journal = Journal(self.connection, self.fate)
                course = Course(self.arithmetic, self.rules, Stop(self.rounds), loss, "{}", {"tiny": 1})
                clock = lambda: 1e9 + loop.time()  # noqa: E731
                coordinator = Coordinator(course, journal, self.disk, clock, f"run-{self.seed}", self.note)
                self.coordinator, self.doomed = coordinator, asyncio.Event()
                self.service = Service(coordinator, self.compute)
                await self.until(self.stay(self.service), self.weather.crashes, self.doomed)
            except (Crash, OSError, sqlite3.OperationalError) as error:
                self.crashed += 1
                self.note("crash", why=repr(error))
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            self.disk.crash(self.draw)
            self.doom()
            await asyncio.sleep(self.draw.random())

    async def stay(self, service: Service) -> None:
        """The server's work; when the run is over, it tells whoever still comes."""
        await service.run()
        await asyncio.Event().wait()

    def doom(self) -> None:
        """The server is no more, from this moment on."""
        self.service = None
        self.doomed.set()
        for line in list(self.lines):
            line.cut()

    async def until(self, life: Coroutine[Any, Any, Any], crashes: float, doomed: asyncio.Event | None = None) -> Any:
        """A life that may end at any moment."""
        task = asyncio.ensure_future(life)
        end = asyncio.ensure_future((doomed or asyncio.Event()).wait())
        try:
            while True:
                done, _ = await asyncio.wait([task, end], timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
                if end in done:
                    raise Crash("in a call")
                if done:
                    return task.result()
                if not self.fine and self.draw.random() < 0.5 * crashes:
                    raise Crash("at random")
        finally:
            task.cancel()
            end.cancel()
            await asyncio.gather(task, end, return_exceptions=True)

    def note(self, event: str, **fields: Any) -> None:
        self.events.append((round(asyncio.get_running_loop().time(), 3), event, fields))

    async def take_part(self, number: int) -> None:
        """A participant's life: it crashes, and comes back."""
        disk = self.disks[number]
        while True:
            link = Wired(self, f"p{number}")
            worker = Worker(self.arithmetic, self.lies)
            participant = Participant(link, worker, disk, compute=self.compute, tell=self.note, draw=self.draw.random)
            try:
                _, model = await self.until(participant.run(), self.weather.crashes)
                self.finals[number] = model["variables.params.w"]
                return
            except (Crash, OSError):
                disk.crash(self.draw)
                link.cut()
            await asyncio.sleep(self.draw.random())

    async def live(self) -> None:
        server = asyncio.create_task(self.serve())
        everybody = [asyncio.create_task(self.take_part(n)) for n in range(self.participants)]
        try:
            together = asyncio.gather(*everybody)
            done, _ = await asyncio.wait([server, together], timeout=600.0, return_when=asyncio.FIRST_COMPLETED)
            assert done, "the run does not end"
            done.pop().result()
        finally:
            for task in (server, *everybody):
                task.cancel()
            await asyncio.gather(server, *everybody, return_exceptions=True)

    def run(self) -> np.ndarray:
        """The final model, after everything that must hold has been checked."""
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(self.live())
            self.ended_at = runner.get_loop().time()
        coordinator = self.coordinator
        final = flatten(coordinator.state.variables)["params.w"]
        rows = coordinator.history.rows
        assert [row["round"] for row in rows] == list(range(1, self.rounds + 1))
        assert all(np.array_equal(model, final) for model in self.finals.values())
        members = coordinator.members
        names = coordinator.journal.counted()
        assert all(len(set(one)) == len(one) == row["replies"] for one, row in zip(names, rows, strict=True))
        numbers = [[members[name].number for name in one] for one in names]
        assert np.array_equal(final, expected(self.arithmetic, numbers, len(members)))
        assert sum(member.rounds for member in members.values()) == sum(row["replies"] for row in rows)
        assert all(row["replies"] <= row["asked"] <= len(members) for row in rows)
        voids = {void.round: void for void in coordinator.journal.voids()}
        assert {row["round"] - 1 for row in rows if row["void"]} == set(voids)
        by_number = {member.number: name for name, member in members.items()}
        for k, round in self.lies:
            assert (by_number[k] in voids[round].names) if round in voids else by_number[k] not in names[round]
        assert all(np.isfinite(row["test_loss"]) for row in rows)
        return final


class Wire:
    """One attendance."""

    def __init__(self, world: World, link: Wired, service: Service, name: str) -> None:
        self.world, self.link, self.service = world, link, service
        self.up: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.down: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.broken = False
        world.lines.add(self)
        link.lines.add(self)
        self.task = asyncio.create_task(self.carry(name))

    async def beats(self) -> AsyncIterator[Beat]:
        while (content := await self.up.get()) is not None:
            await self.world.pass_by()
            yield decoded(Beat, content)

    async def carry(self, name: str) -> None:
        try:
            async for order in self.service.attend(name, self.beats()):
                await self.world.pass_by()
                self.down.put_nowait(order.SerializeToString())
            self.down.put_nowait(None)
        except Crash:
            self.world.doom()
        except (OSError, sqlite3.OperationalError):
            self.down.put_nowait(None)
        finally:
            self.broken = True
            self.down.put_nowait(None)

    def cut(self) -> None:
        """The connection ends, for both."""
        self.broken = True
        self.task.cancel()
        self.down.put_nowait(None)
        self.world.lines.discard(self)
        self.link.lines.discard(self)

    async def send(self, beat: Beat) -> None:
        world = self.world
        if not self.broken and not world.fine and world.draw.random() < world.weather.broken:
            self.cut()
        if self.broken:
            raise Lost("the line is broken")
        self.up.put_nowait(beat.SerializeToString())

    async def receive(self) -> Order | None:
        content = await self.down.get()
        if content is None:
            if self.broken and self.down.empty():
                raise Lost("the line is broken")
            return None
        order = Order()
        order.ParseFromString(content)
        return order

    async def close(self) -> None:
        self.cut()


class Wired:
    """A way to the server through the weather."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self.lines = world, name, set[Wire]()

    def cut(self) -> None:
        for line in list(self.lines):
            line.cut()

    def server(self) -> Service:
        if self.world.service is None:
            raise Lost("nobody is there")
        return self.world.service

    async def attend(self) -> Wire:
        await self.world.pass_by()
        return Wire(self.world, self, self.server(), self.name)

    async def call(self, what: Callable[[Service], Coroutine[Any, Any, Any]]) -> Any:
        """A call and its answer; either may be lost, and the call may arrive twice."""
        world, weather = self.world, self.world.weather
        await world.pass_by()
        bad = not world.fine
        if bad and world.draw.random() < weather.lost:
            raise Lost("the call was lost")
        try:
            answer = await what(self.server())
            if bad and world.draw.random() < weather.twice:
                await world.pass_by()
                await what(self.server())
        except Gone as error:
            raise Lost(str(error)) from None
        except (OSError, sqlite3.OperationalError, Unfit) as error:
            raise Lost(str(error)) from None
        except Crash:
            world.doom()
            raise Lost("the server is gone") from None
        await world.pass_by()
        if bad and world.draw.random() < weather.lost:
            raise Lost("the answer was lost")
        return answer

    async def fetch(self, want: Want) -> AsyncIterator[Chunk]:
        async def some(service: Service) -> list[bytes]:
            return [chunk.SerializeToString() async for chunk in service.fetch(self.name, want)]

        for content in await self.call(some):
            yield decoded(Chunk, content)

    async def held(self, want: Want) -> Place:
        found: Place = await self.call(lambda service: service.held(self.name, decoded(Want, want.SerializeToString())))
        return found

    async def push(self, chunks: AsyncIterator[Chunk]) -> Place:
        contents = [chunk.SerializeToString() async for chunk in chunks]

        async def again() -> AsyncIterator[Chunk]:
            for content in contents:
                yield decoded(Chunk, content)

        found: Place = await self.call(lambda service: service.push(self.name, again()))
        return found

    async def submit(self, update: Update) -> Verdict:
        sent = update.SerializeToString()
        found: Verdict = await self.call(lambda service: service.submit(self.name, decoded(Update, sent)))
        return found


def expected(arithmetic: Arithmetic, counted: Sequence[Sequence[int]], participants: int) -> np.ndarray:
    """The model after rounds in which these participants counted, computed without any server."""
    state, turns = arithmetic.first, [0] * participants
    for round, numbers in enumerate(counted):
        if not numbers:  # it was void
            state = arithmetic.skipped(state)
            continue
        model = flatten(state.variables)["params.w"]
        who = [k for k in arithmetic.preference(round, [1] * participants) if k in numbers]
        given = [Contribution(k, 10 * (k + 1), {}) for k in who]
        order = arithmetic.ordered(given)
        updates = [{"update.params.w": computed(who[i], round, model, turns[who[i]])} for i in order]
        state, *_ = arithmetic.step(state, [given[i] for i in order], updates, participants)
        for k in who:
            turns[k] += 1
    return flatten(state.variables)["params.w"]
