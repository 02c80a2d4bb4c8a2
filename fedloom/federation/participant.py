"""Participant: what a client does from the first call to the end of a run, whatever carries its messages."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import numpy as np

from fedloom.errors import FedloomError
from fedloom.federation.disk import Disk, digest
from fedloom.federation.log import Log, silent
from fedloom.federation.outbox import Outbox, Parcel, Pending, Trained, parcel
from fedloom.federation.schema import Schema, Unfit
from fedloom.federation.service import Compute, in_a_thread
from fedloom.federation.wire import CHUNK, PROTOCOL
from fedloom.federation.wire_pb2 import Beat, Chunk, Order, Over, Place, Update, Verdict, Want, Welcome, Work

FIRST, LONGEST = 0.5, 30.0  # seconds before one tries again: at least, and at most
SHARE = 1 / 8  # of the time since the server was last there, after which one tries again
TRIES = 5  # to get a file over in one go at it
FAREWELL = 5.0  # seconds for which one waits until the server has heard that one takes no part
Ended = tuple[Over, dict[str, np.ndarray]]
"""Why a run is over, and its final model."""


class Lost(Exception):
    """The server cannot be reached, or not any more; later it may be."""


class Rejected(FedloomError):
    """The server does not want this participant, and will not later."""


class Line(Protocol):
    """Being there, on a server's side and on one's own."""

    async def send(self, beat: Beat) -> None:
        """Give a sign of life."""

    async def receive(self) -> Order | None:
        """The next order; ``None`` when the server has no more."""

    async def close(self) -> None:
        """Leave."""


class Link(Protocol):
    """A way to a server; every method raises :class:`Lost` where there is none."""

    async def attend(self) -> Line:
        """Be there."""

    def fetch(self, want: Want) -> AsyncIterator[Chunk]:
        """A file, from some byte on."""

    async def held(self, want: Want) -> Place:
        """How much of a file the server has."""

    async def push(self, chunks: AsyncIterator[Chunk]) -> Place:
        """A file, from some byte on."""

    async def submit(self, update: Update) -> Verdict:
        """What becomes of an update."""


class Trainer(Protocol):
    """Local work."""

    model_schema: Schema
    update_schema: Schema

    @property
    def examples(self) -> int:
        """How many examples there are to train on."""

    def prepare(self, welcome: Welcome) -> None:
        """Make ready for a run; raises a :class:`FedloomError` if it cannot take part."""

    def train(
        self, round: int, model: Mapping[str, np.ndarray], kept: Mapping[str, np.ndarray], seconds: float | None = None
    ) -> Trained:
        """Do the local work of a round.

        Args:
            round: the number of the round.
            model: what the server has sent.
            kept: what was kept from the last round that counted.
            seconds: the time that is left of the round.
        """


class Participant:
    """One participant of one run.

    Arguments:
        link: the way to the server.
        trainer: the local work.
        disk: where updates wait for their acknowledgement, and where what is kept is kept.
        ready: whether one may be asked to work now: charging, idle, unmetered; asked before every sign of life.
        compute: where the work is done while signs of life go on.
        tell: told of what happens, by name.
        draw: random numbers for how long one waits before one tries again.
        patience: seconds without a server after which one gives up.
    """

    def __init__(
        self,
        link: Link,
        trainer: Trainer,
        disk: Disk,
        *,
        version: str = "",
        ready: Callable[[], bool] = lambda: True,
        compute: Compute[Any] = in_a_thread,
        tell: Log = silent,
        draw: Callable[[], float] = random.random,
        patience: float = float("inf"),
    ) -> None:
        self.link, self.trainer, self.disk, self.version, self.ready = link, trainer, disk, version, ready
        self.outbox = Outbox(disk)
        self.compute, self.tell, self.draw, self.patience = compute, tell, draw, patience
        self.run_id, self.beat_every, self.welcomed = "", 2.0, b""
        self.there = False
        self.training: tuple[tuple[str, int, str], asyncio.Future[Parcel]] | None = None
        self.newest: Order | None = None
        self.heard = 0.0  # when the newest order came
        self.news = asyncio.Event()
        self.unfit, self.hurry = False, asyncio.Event()  # whether this run is none for us, which is to be said at once

    async def run(self) -> Ended:
        """Take part until the run is over: why it is, and its final model."""
        try:
            return await self._stay()
        finally:
            if self.training is not None:
                self.training[1].cancel()

    async def _stay(self) -> Ended:
        """Be there again and again."""
        loop = asyncio.get_running_loop()
        heard = loop.time()
        while True:
            try:
                end = await self._attend()
                if end is not None:
                    return end
                heard, wait = loop.time(), FIRST
            except Lost as error:
                if self.there:
                    heard, self.there = loop.time(), False
                gone = loop.time() - heard
                if gone > self.patience:
                    raise Rejected(f"the server has not answered for {self.patience:g} seconds: {error}") from error
                wait = min(LONGEST, max(FIRST, SHARE * gone))
                self.tell("lost", why=str(error), again=wait)
            except Later as later:
                wait = later.seconds
            await asyncio.sleep(wait * (0.5 + self.draw()))

    async def _attend(self) -> Ended | None:
        """Be there until the line ends; how the run ended, if it has."""
        line = await self.link.attend()
        self.unfit = False  # until it is seen what is learned there now
        self.hurry.clear()
        tasks: list[asyncio.Task[Any]] = []
        try:
            await line.send(await self._beat())
            tasks = [asyncio.create_task(self._live(line)), asyncio.create_task(self._hear(line)),
                     asyncio.create_task(self._work())]  # fmt: skip
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if (error := task.exception()) is not None:
                    raise error
            end: Ended | None = tasks[2].result() if tasks[2] in done else None
            return end
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await line.close()

    async def _beat(self) -> Beat:
        ready = not self.unfit and await self.compute(self.ready)  # somebody's hook, which may take its time
        examples = self.trainer.examples
        return Beat(protocol=PROTOCOL, version=self.version, ready=ready, examples=examples, unfit=self.unfit)

    async def _live(self, line: Line) -> None:
        """Give signs of life."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.beat_every):
                    await self.hurry.wait()
            self.hurry.clear()
            await line.send(await self._beat())

    async def _hear(self, line: Line) -> None:
        """Take orders; the newest counts."""
        while (order := await line.receive()) is not None:
            kind = order.WhichOneof("what")
            if kind == "refusal":
                if order.refusal.again > 0:
                    raise Later(order.refusal.again)
                raise Rejected(order.refusal.why)
            if kind == "welcome":
                try:
                    await self._begin(order.welcome)
                except FedloomError:
                    await self._decline(line)
                    raise
            elif kind in ("work", "over"):
                if not self.run_id:
                    raise Rejected("the server gives orders before it has said what is learned")
                self.newest, self.heard = order, time.monotonic()
                self.news.set()

    async def _decline(self, line: Line) -> None:
        """Say that one takes no part, so that nobody waits; not why, which is for those who have the data."""
        self.unfit = True
        self.hurry.set()
        with suppress(TimeoutError, Lost):
            async with asyncio.timeout(FAREWELL):
                while (order := await line.receive()) is not None and order.WhichOneof("what") != "refusal":
                    pass  # what was ordered before the server has heard it

    async def _begin(self, welcome: Welcome) -> None:
        """Make ready for a run."""
        self.beat_every, self.there = welcome.beat, True
        if self.welcomed != (told := welcome.SerializeToString(deterministic=True)):
            await self._rest()
            try:
                await self.compute(lambda: self.trainer.prepare(welcome))
            except FedloomError:
                raise
            except Exception as error:  # whatever is wrong with it, it is the server's
                what = f"{type(error).__name__}: {error}"[:200]
                raise Rejected(f"what the server says of the run cannot be used ({what})") from error
            self.run_id, self.welcomed = welcome.run, told
            self.tell("welcome", run=welcome.run, number=welcome.number)

    async def _work(self) -> Ended:
        """Do what is ordered, one thing after another; in the end fetch the final model, while the server sees that
        somebody is still there.
        """
        while True:
            await self.news.wait()
            self.news.clear()
            order, self.newest = self.newest, None
            if order is None:
                continue
            if order.WhichOneof("what") == "over":
                self.outbox.settle(self.run_id, order.over.counted, None)
                return order.over, await self._model(order.over.model, order.over.size)
            await self._round(order.work)

    async def _round(self, work: Work) -> None:
        """The local work of a round, and its update on its way until the server has judged it."""
        self.outbox.settle(self.run_id, work.counted, work.round)
        pending = self.outbox.ready(self.run_id, work)
        if pending is None:
            model = await self._model(work.model, work.size)
            pending = self.outbox.remember(self.run_id, work, await self._trained(work, model))
        await self._deliver(work, pending)

    async def _trained(self, work: Work, model: Mapping[str, np.ndarray]) -> Parcel:
        """What comes of local work, ready to be sent. It goes on while the server is away: asked for again, it is not
        begun again.
        """
        wanted = (self.run_id, work.round, work.model)
        if self.training is None or self.training[0] != wanted:
            await self._rest()
            kept = self.outbox.kept(self.run_id, work.counted)
            self.tell("training", round=work.round)

            def job() -> Parcel:
                left = max(0.0, work.seconds - (time.monotonic() - self.heard)) if work.seconds else None
                made = parcel(self.trainer.train(work.round, model, kept, left))
                self.outbox.check_kept(made, kept, work.counted)
                return made

            self.training = wanted, asyncio.ensure_future(self.compute(job))
        trained = await asyncio.shield(self.training[1])
        self.training = None
        return trained

    async def _rest(self) -> None:
        """Wait until work that nobody wants any more has ended: it cannot be stopped, and two at once are too many."""
        if self.training is not None:
            await asyncio.wait([self.training[1]])
            self.training = None

    async def _model(self, file: str, size: int) -> dict[str, np.ndarray]:
        """A model from the server, in as many goes as it takes."""
        if size > self.trainer.model_schema.most:
            raise Rejected(
                f"the server's model has {size:,} bytes; ours has at most {self.trainer.model_schema.most:,}"
            )
        part = f"{file}.part"
        for _ in range(TRIES):
            start = self.disk.size(part) or 0
            async for chunk in self.link.fetch(Want(file=file, start=start)):
                if not chunk.content or start + len(chunk.content) > size:
                    break
                self.disk.append(part, start, chunk.content)
                start += len(chunk.content)
            content = await self.compute(partial(self._whole, part, file)) if start == size else None
            if start >= size:
                self.disk.remove(part)
            if content is not None:
                try:
                    model: dict[str, np.ndarray] = await self.compute(
                        partial(self.trainer.model_schema.arrays, content)
                    )
                except Unfit as error:
                    raise Rejected(f"the server sent a model that does not fit: {error}") from error
                return model
        raise Lost("the model did not come over whole")

    def _whole(self, part: str, file: str) -> bytes | None:
        """A file that has come over, if it is what its name says."""
        content = self.disk.read(part)
        return content if digest(content) == file else None

    async def _deliver(self, work: Work, pending: Pending) -> None:
        """Push an update and submit it."""
        for _ in range(TRIES):
            if self.newest is not None:
                return  # something newer is ordered: nobody waits for this one
            await self._push(pending)
            verdict = await self.link.submit(
                Update(
                    run=self.run_id, round=work.round, attempt=work.attempt, file=pending.file, size=pending.size,
                    examples=pending.examples, readings=pending.readings, measures=pending.measures,
                    steps=pending.steps,
                )
            )  # fmt: skip
            if verdict.outcome != Verdict.MISSING:
                known = verdict.outcome in Verdict.Outcome.values()
                outcome = Verdict.Outcome.Name(verdict.outcome if known else Verdict.UNKNOWN)
                self.tell("verdict", round=work.round, outcome=outcome, why=verdict.why)
                return
        raise Lost("the update did not get over whole")

    async def _push(self, pending: Pending) -> None:
        """Send what the server does not have of an update."""
        place = await self.link.held(Want(file=pending.file))
        for _ in range(TRIES):
            if place.start >= pending.size:
                return
            place = await self.link.push(self._chunks(pending, place.start))

    async def _chunks(self, pending: Pending, start: int) -> AsyncIterator[Chunk]:
        first = True
        while start < pending.size:
            content = self.disk.read(pending.file, start, CHUNK)
            about = Chunk(file=pending.file, start=start, size=pending.size) if first else Chunk()
            about.content = content
            yield about
            start, first = start + len(content), False


class Later(Exception):
    """The server asks to come back after some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"come back in {seconds:g} seconds")
        self.seconds = seconds
