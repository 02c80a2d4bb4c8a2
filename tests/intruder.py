"""Intruder: a server with real TLS in this process, and somebody who calls it with whatever bytes it likes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
from weather import TINY

import fedloom as fl
from fedloom.federation.arithmetic import arithmetic
from fedloom.federation.coordinator import Coordinator
from fedloom.federation.course import Course
from fedloom.federation.disk import Disk, digest
from fedloom.federation.door import SERVICE, Door, opened
from fedloom.federation.ending import Ending
from fedloom.federation.folder import REVOKED
from fedloom.federation.journal import Journal
from fedloom.federation.keys import Keys
from fedloom.federation.log import sparing
from fedloom.federation.revoked import Revoked
from fedloom.federation.rules import Rules
from fedloom.federation.service import Service
from fedloom.federation.wire import PROTOCOL
from fedloom.federation.wire_pb2 import Beat, Chunk, Order, Place, Update, Verdict, Want
from fedloom.runs.stopping import Stop

ARITHMETIC = arithmetic(TINY, fl.fedavg(fraction=1.0), 0)
GOOD = {"update.params.w": np.full(3, 0.5, np.float32)}


@dataclass
class Site:
    """A server that is there.

    Arguments:
        folder: with ``keys``, the authority.
        rules: of its rounds.
        stop: when the run is over.
    """

    folder: Path
    rules: Rules = field(default_factory=lambda: Rules(begin=1, quorum=0.01, patience=0.0, pause=0.05, beat=5.0))
    stop: Stop = field(default_factory=lambda: Stop(rounds=1000))
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Site]:
        """Inside, it serves."""

        def note(event: str, **fields: Any) -> None:
            self.events.append((event, fields))

        course = Course(ARITHMETIC, self.rules, self.stop, lambda _: {}, "{}", {"tiny": 1})
        journal = Journal(self.folder / "journal.sqlite")
        self.disk = Disk(self.folder / "files")
        loop = asyncio.get_running_loop()
        self.coordinator = Coordinator(course, journal, self.disk, loop.time, "a-run", sparing(note))
        self.service = Service(self.coordinator)
        self.door = Door(self.service, Revoked(self.folder / "keys" / REVOKED))
        keys = partial(Keys.read, self.folder / "keys" / "server")
        server, self.port = await opened(self.door, "127.0.0.1:0", keys, 1000)
        running = asyncio.create_task(self.service.run())
        try:
            yield self
            assert not running.done() or not running.exception()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await server.stop(0)
            journal.close()

    def told(self, event: str) -> list[dict[str, Any]]:
        """What was logged of one kind."""
        return [fields for name, fields in self.events if name == event]

    def intruder(self, name: str) -> Intruder:
        """Somebody with a certificate of this name."""
        return Intruder(self.port, Keys.read(self.folder / "keys" / name))


class Intruder:
    """Somebody who calls a server."""

    def __init__(self, port: int, keys: Keys, **options: Any) -> None:
        proof = grpc.ssl_channel_credentials(keys.ca, keys.key, keys.cert)
        private = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1))
        self.channel = grpc.aio.secure_channel(f"localhost:{port}", proof, options=private, **options)

    async def __aenter__(self) -> Intruder:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()

    def stream(self, method: str) -> Any:
        """A call that is open both ways."""
        call = self.channel.stream_stream(f"/{SERVICE}/{method}")()
        call.ending = Ending(call)
        return call

    async def call(self, method: str, *contents: bytes, patience: float = 10.0) -> bytes:
        """The first answer to some messages, whatever they are."""
        call = self.stream(method)
        try:
            async with asyncio.timeout(patience):
                with contextlib.suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):  # it may be over already
                    for content in contents:
                        await call.write(content)
                    await call.done_writing()
                return await heard_from(call)
        finally:
            call.cancel()

    async def attend(self, **said: Any) -> Any:
        """Come; the open call."""
        call = self.stream("Attend")
        with contextlib.suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):  # it may be over already
            await call.write(Beat(**{"protocol": PROTOCOL, "ready": True, "examples": 10, **said}).SerializeToString())
        return call

    async def held(self, file: str) -> int:
        return Place.FromString(await self.call("Held", Want(file=file).SerializeToString())).start

    async def push(self, content: bytes, file: str | None = None, **said: Any) -> int:
        first = Chunk(**{"file": digest(content) if file is None else file, "size": len(content), **said})
        first.content = content
        return Place.FromString(await self.call("Push", first.SerializeToString())).start

    async def submit(self, work: Any, content: bytes, **said: Any) -> Verdict:
        plain = {"run": "a-run", "round": work.round, "attempt": work.attempt, "file": digest(content),
                 "size": len(content), "examples": 10}  # fmt: skip
        return Verdict.FromString(await self.call("Submit", Update(**{**plain, **said}).SerializeToString()))

    async def deliver(self, work: Any, content: bytes, **said: Any) -> Verdict:
        """Push and submit."""
        await self.push(content)
        return await self.submit(work, content, **said)


async def ended(call: Any) -> grpc.aio.AioRpcError:
    """How a call has ended, as an error."""
    about = await call.initial_metadata(), await call.trailing_metadata()
    code, details = await call.ending.status()
    return grpc.aio.AioRpcError(code, *about, details=details)


async def heard_from(call: Any) -> bytes:
    """What the server says next; raises how the call has ended if it has."""
    with contextlib.suppress(grpc.aio.AioRpcError):
        answer = await call.read()
        if answer is not grpc.aio.EOF:
            return bytes(answer)
    raise await ended(call)


async def order(call: Any, kind: str, beat: float = 0.2) -> Any:
    """The next order of one kind; signs of life go on meanwhile."""
    heard = asyncio.Event()

    async def live() -> None:  # never cut off while it says something, for that would end the call
        while not heard.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(beat):
                    await heard.wait()
            await call.write(Beat(protocol=PROTOCOL, ready=True).SerializeToString())

    living = asyncio.create_task(live())
    try:
        async with asyncio.timeout(30):
            while True:
                found = Order.FromString(await heard_from(call))
                if found.WhichOneof("what") == kind:
                    return getattr(found, kind)
    finally:
        heard.set()
        await asyncio.gather(living, return_exceptions=True)


def update(arrays: Mapping[str, np.ndarray]) -> bytes:
    """A file with any arrays."""
    from safetensors.numpy import save

    return save(dict(arrays))
