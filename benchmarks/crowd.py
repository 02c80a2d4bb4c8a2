"""Light participants, several hundred a process: real connections and certificates, updates without any computing."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import fedloom as fl
from fedloom.federation.arithmetic import Arithmetic
from fedloom.federation.channel import Channel, GrpcLine
from fedloom.federation.disk import Disk
from fedloom.federation.keys import Keys
from fedloom.federation.outbox import Trained
from fedloom.federation.participant import Participant
from fedloom.federation.service import in_a_thread
from fedloom.federation.wire_pb2 import Chunk, Place, Update, Verdict, Want, Welcome

PROBE = 0.05  # seconds between two questions of the one who only asks
Times = defaultdict[str, list[float]]
console = Console(stderr=True)


class Idle:
    """A trainer that hands over what it was given at the beginning.

    Arguments:
        mine: what is learned, from which the shapes come.
        update: what is sent, every time.
    """

    examples = 100

    def __init__(self, mine: Arithmetic, update: Mapping[str, np.ndarray]) -> None:
        self.model_schema, self.update_schema, self.update = mine.model_schema, mine.update_schema, update
        self.prepared = asyncio.Event()

    def prepare(self, welcome: Welcome) -> None:  # noqa: ARG002
        """The server has said hello."""
        self.prepared.set()

    def train(
        self,
        round: int,
        model: Mapping[str, np.ndarray],  # noqa: ARG002
        kept: Mapping[str, np.ndarray],  # noqa: ARG002
        seconds: float | None = None,  # noqa: ARG002
    ) -> Trained:
        """The same update, made unlike that of any other round by one number."""
        name = next(iter(self.update))
        self.update[name].flat[0] = round
        return Trained(self.update, self.examples, {}, {}, {})


class Timed:
    """A channel that notes how long its calls take."""

    def __init__(self, channel: Channel, times: Times) -> None:
        self.channel, self.times = channel, times

    async def attend(self) -> GrpcLine:
        """Be there."""
        return await self.channel.attend()

    async def fetch(self, want: Want) -> AsyncIterator[Chunk]:
        """A file, from some byte on."""
        with self._timed("fetch"):
            async for chunk in self.channel.fetch(want):
                yield chunk

    async def held(self, want: Want) -> Place:
        """How much of a file the server has."""
        with self._timed("held"):
            return await self.channel.held(want)

    async def push(self, chunks: AsyncIterator[Chunk]) -> Place:
        """A file, from some byte on."""
        with self._timed("push"):
            return await self.channel.push(chunks)

    async def submit(self, update: Update) -> Verdict:
        """What becomes of an update."""
        with self._timed("submit"):
            return await self.channel.submit(update)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.times[name].append(time.perf_counter() - start)


async def at_once(work: Callable[[], Any]) -> Any:
    """Compute here: there is nothing long to compute."""
    return work()


def update(mine: Arithmetic, seed: int) -> dict[str, np.ndarray]:
    """A small update of the right shapes."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.standard_normal(shape, np.float32).astype(kind) * np.dtype(kind).type(1e-4)
        for name, shape, kind in mine.update_schema.fields
    }


async def attended(
    server: str, keys: Path, folder: Path, mine: Arithmetic, names: Sequence[str], asking: bool, times: Times
) -> Times:
    """All of these participants, until the run is over.

    Arguments:
        server: ``host:port``.
        keys: the authority's folder, with one folder a name.
        folder: where they keep what they keep.
        mine: what is learned.
        names: who they are.
        asking: whether they take no work, and only ask how much the server has of a file, again and again.
        times: where seconds are noted, by call.
    """

    async def one(name: str) -> None:
        channel = Channel(server, Keys.read(keys / name))

        def tell(event: str, **fields: Any) -> None:
            if event == "lost":
                console.print(f"{name}: {fields['why']}", highlight=False)
                times["lost"].append(0.0)

        trainer, link = Idle(mine, update(mine, zlib.crc32(name.encode()))), Timed(channel, times)
        person = Participant(
            link,
            trainer,
            Disk(folder / name),
            version=fl.__version__,
            ready=lambda: not asking,
            compute=at_once if len(names) > 1 else in_a_thread,
            tell=tell,
        )
        probing = asyncio.create_task(probed(channel, trainer.prepared, times)) if asking else None
        try:
            await person.run()
        finally:
            if probing:
                probing.cancel()
            await channel.close()

    await asyncio.gather(*(one(name) for name in names))
    return times


async def probed(channel: Channel, prepared: asyncio.Event, times: Times) -> None:
    """Ask the shortest question there is, again and again."""
    await prepared.wait()
    while True:
        start = time.perf_counter()
        await channel.held(Want(file="0" * 64))
        times["alone"].append(time.perf_counter() - start)
        await asyncio.sleep(PROBE)
