"""Channel: a participant's way to a server over gRPC: one connection, which it opens itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from fedloom.errors import require
from fedloom.federation.address import is_loopback, parted
from fedloom.federation.door import FOLDED, NAME, SERVICE
from fedloom.federation.ending import OVER, Ending
from fedloom.federation.identity import check_name
from fedloom.federation.keys import Keys
from fedloom.federation.participant import Lost, Rejected
from fedloom.federation.wire import LARGEST, Malformed, decoded
from fedloom.federation.wire_pb2 import Beat, Chunk, Order, Place, Update, Verdict, Want

M = TypeVar("M", bound=Message)
OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", LARGEST),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 500),  # the participant waits by itself before it tries again
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
)
FOR_GOOD = {
    grpc.StatusCode.UNAUTHENTICATED: "the server does not know this certificate",
    grpc.StatusCode.PERMISSION_DENIED: "the server lets this participant not in",
    grpc.StatusCode.UNIMPLEMENTED: "the server speaks no protocol of this version of fedloom",
    grpc.StatusCode.INVALID_ARGUMENT: "the server takes this not",
}
WAIT = 60.0  # seconds for a short call


class GrpcLine:
    """One attendance."""

    def __init__(self, call: Any) -> None:
        self.call, self.ending = call, Ending(call)

    async def send(self, beat: Beat) -> None:
        """Give a sign of life."""
        try:
            await self.call.write(beat.SerializeToString())
        except OVER:
            raise _told(*await self.ending.status()) from None

    async def receive(self) -> Order | None:
        """The next order."""
        return await _next(self.call, self.ending, Order)

    async def close(self) -> None:
        """Leave."""
        self.call.cancel()


class Channel:
    """A way to a server.

    Arguments:
        server: ``host:port``.
        keys: one's own key and certificates; ``None`` secures nothing, which only this machine's own address may.
        name: what one is called where nothing is secured.
        compressed: whether files are compressed on their way.
    """

    def __init__(self, server: str, keys: Keys | None, name: str = "", compressed: bool = False) -> None:
        parted("server", server)
        how = grpc.Compression.Gzip if compressed else grpc.Compression.NoCompression
        if keys is None:
            require(is_loopback(server), "server", "this machine's own (127.0.0.1) without certificates", server)
            check_name(name)
            self.channel = grpc.aio.insecure_channel(server, options=OPTIONS, compression=how)
        else:
            proof = grpc.ssl_channel_credentials(keys.ca, keys.key, keys.cert)
            self.channel = grpc.aio.secure_channel(server, proof, options=OPTIONS, compression=how)
        self.metadata = (*(((NAME, name),) if keys is None else ()), *(((FOLDED, "yes"),) if compressed else ()))

    async def attend(self) -> GrpcLine:
        """Be there."""
        call = self.channel.stream_stream(f"/{SERVICE}/Attend")(metadata=self.metadata)
        return GrpcLine(call)

    async def fetch(self, want: Want) -> AsyncIterator[Chunk]:
        """A file, from some byte on."""
        call = self.channel.unary_stream(f"/{SERVICE}/Fetch")(want.SerializeToString(), metadata=self.metadata)
        try:
            while (content := await _asked(call.read())) is not grpc.aio.EOF:
                yield _parsed(Chunk, content)
            if (code := await call.code()) != grpc.StatusCode.OK:
                raise _told(code, await call.details())
        finally:
            call.cancel()

    async def held(self, want: Want) -> Place:
        """How much of a file the server has."""
        return await self._ask("Held", want, Place)

    async def push(self, chunks: AsyncIterator[Chunk]) -> Place:
        """A file, from some byte on."""
        call = self.channel.stream_stream(f"/{SERVICE}/Push")(metadata=self.metadata)
        answer = asyncio.create_task(_next(call, Ending(call), Place))  # at once: it may come before all is said
        try:
            with suppress(*OVER):  # the server has heard enough, or does not want to hear it
                async for chunk in chunks:
                    await call.write(chunk.SerializeToString())
                await call.done_writing()
            place = await answer
        finally:
            call.cancel()
            await asyncio.gather(answer, return_exceptions=True)
        if place is None:
            raise Lost("the server has hung up")
        return place

    async def submit(self, update: Update) -> Verdict:
        """What becomes of an update."""
        return await self._ask("Submit", update, Verdict)

    async def _ask(self, method: str, message: Message, kind: type[M]) -> M:
        call = self.channel.unary_unary(f"/{SERVICE}/{method}")
        return _parsed(kind, await _asked(call(message.SerializeToString(), metadata=self.metadata, timeout=WAIT)))

    async def close(self) -> None:
        """End the connection."""
        await self.channel.close()


async def _next(call: Any, ending: Ending, kind: type[M]) -> M | None:
    """What the server says next; ``None`` if it says no more and nothing is wrong."""
    with suppress(*OVER):
        if (content := await call.read()) is not grpc.aio.EOF:
            return _parsed(kind, content)
        await call.code()  # which comes after the last message
    code, details = await ending.status()
    if code == grpc.StatusCode.OK:
        return None
    raise _told(code, details)


async def _asked(call: Awaitable[Any]) -> Any:
    """What a call gives, or why it gives nothing."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise _told(error.code(), error.details()) from None
    except OVER as error:
        raise Lost(str(error)) from None


def _told(code: grpc.StatusCode, details: str | None) -> Exception:
    """An error as one that a participant knows."""
    if code in FOR_GOOD:
        return Rejected(f"{FOR_GOOD[code]}: {details}")
    if code == grpc.StatusCode.OK:
        return Lost("the server has hung up")
    return Lost(f"{code.name.lower().replace('_', ' ')}: {details}")


def _parsed(kind: type[M], content: bytes) -> M:
    try:
        return decoded(kind, content)
    except Malformed as error:
        raise Rejected(f"the server says what cannot be meant: {error}") from None
