"""Service: a coordinator's calls as coroutines, for whatever carries them; and the loop that does what is due."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from fedloom.federation.coordinator import Coordinator
from fedloom.federation.schema import Unfit
from fedloom.federation.wire import CHUNK
from fedloom.federation.wire_pb2 import Beat, Chunk, Order, Place, Update, Verdict, Want

T = TypeVar("T")
Compute = Callable[[Callable[[], T]], Awaitable[T]]
"""Runs something long elsewhere, while the loop goes on."""
ORDERS = 16  # that may wait for a participant that does not take them
LAG = 1.0  # seconds by which the loop may be late without anybody being excused


class Gone(Exception):
    """What was asked for is not there: the participant is behind, or was never there."""


async def in_a_thread(function: Callable[[], T]) -> T:
    """Run something long in a thread."""
    return await asyncio.get_running_loop().run_in_executor(None, function)


class Service:
    """What participants can call.

    Arguments:
        coordinator: who decides.
        compute: where rounds are closed.
    """

    def __init__(self, coordinator: Coordinator, compute: Compute[Any] = in_a_thread) -> None:
        self.coordinator, self.compute = coordinator, compute
        self.changed = asyncio.Event()
        self.locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def attend(self, name: str, beats: AsyncIterator[Beat]) -> AsyncGenerator[Order]:
        """Orders to a participant, as long as it gives signs of life."""
        first = await anext(beats, None)
        if first is None:
            return
        orders: asyncio.Queue[Order | None] = asyncio.Queue()

        def post(order: Order) -> None:
            if orders.qsize() <= ORDERS:  # the last place is for the end
                orders.put_nowait(order if orders.qsize() < ORDERS else None)

        staying = self.coordinator.attend(name, first, post)
        self.changed.set()
        listening = asyncio.create_task(self._listen(name, beats, orders, post))
        try:
            while (order := await orders.get()) is not None:
                yield order
                if not staying or order.WhichOneof("what") == "refusal":
                    return
            if listening.done():
                listening.result()  # why there are no more signs of life, if that is an error
        finally:
            if not listening.cancel() and not listening.cancelled():
                listening.exception()
            self.coordinator.leave(name, post)
            self.changed.set()

    async def _listen(
        self,
        name: str,
        beats: AsyncIterator[Beat],
        orders: asyncio.Queue[Order | None],
        post: Callable[[Order], None],
    ) -> None:
        """Hear signs of life until there are no more."""
        try:
            async for beat in beats:
                if self.coordinator.beat(name, beat, post):
                    self.changed.set()
        finally:
            orders.put_nowait(None)

    async def fetch(self, name: str, want: Want) -> AsyncGenerator[Chunk]:  # noqa: ARG002
        """A file, from some byte on."""
        if not self.coordinator.readable(want.file):
            raise Gone("this file is no longer there: wait for the next order")
        start, size = want.start, self.coordinator.disk.size(want.file) or 0
        while start < size:
            try:
                content = self.coordinator.disk.read(want.file, start, CHUNK)
            except FileNotFoundError:
                raise Gone("this file is no longer there: wait for the next order") from None
            yield Chunk(content=content)
            start += len(content)

    async def held(self, name: str, want: Want) -> Place:
        """How much of a file a participant has pushed."""
        self._known(name)
        return self.coordinator.held(name, want.file)

    async def push(self, name: str, chunks: AsyncIterator[Chunk]) -> Place:
        """A file, from some byte on; how much of it there is then."""
        self._known(name)
        file, start, size = "", 0, 0
        async for chunk in chunks:
            if not file:
                file, start, size = chunk.file, chunk.start, chunk.size
                if not file:
                    raise Unfit("a file without a name")
            if not chunk.content:
                raise Unfit("a chunk without content")
            async with self.locks[name]:
                at = self.coordinator.take(name, file, start, size, chunk.content)
            if at != start + len(chunk.content):
                return Place(start=at)
            start = at
        return Place(start=start)

    async def submit(self, name: str, update: Update) -> Verdict:
        """What becomes of an update."""
        if name not in self.coordinator.members:
            return self.coordinator.strange()
        async with self.locks[name]:  # its file must not change while it is looked into
            verdict = self.coordinator.known(name, update)
            if verdict is None:
                try:
                    fault = await self.compute(lambda: self.coordinator.fault(name, update))
                    verdict = self.coordinator.decide(name, update, fault)
                except FileNotFoundError:
                    verdict = self.coordinator.garbled(name)
        self.changed.set()
        return verdict

    def _known(self, name: str) -> None:
        if name not in self.coordinator.members:
            raise Gone("come first, then push")

    async def run(self) -> None:
        """Do what is due, until the run is over."""
        loop = asyncio.get_running_loop()
        while not self.coordinator.stopped:
            rest = self.coordinator.rest()
            planned = loop.time() + rest
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self.changed.wait()
            self.changed.clear()
            if (late := loop.time() - planned) > LAG:
                self.coordinator.forgive(late)
            await self._due()

    async def _due(self) -> None:
        coordinator = self.coordinator
        try:
            if job := coordinator.tick():
                try:
                    coordinator.finish(await self.compute(job))
                except Unfit as error:
                    coordinator.spoiled(str(error))
                except BaseException:
                    coordinator.failed()
                    raise
                self.changed.set()
        except (OSError, sqlite3.Error) as error:  # a full disk, most likely: nothing is lost, later there may be room
            self._trouble(error)

    def _trouble(self, error: Exception) -> None:
        self.coordinator.log("trouble", why=str(error))
        self.coordinator.not_before = self.coordinator.clock() + self.coordinator.rules.pause
