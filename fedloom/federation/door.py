"""Door: a service over gRPC. Who calls is who its certificate says, and nobody else gets in; those who are in may not
keep others out: their calls are counted, paced and timed.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from fedloom.errors import IdentityError, require
from fedloom.federation.address import is_loopback
from fedloom.federation.certificate import expiry_of
from fedloom.federation.identity import NAME as NAMED
from fedloom.federation.identity import Identity, identity_of
from fedloom.federation.keys import Keys
from fedloom.federation.log import printable
from fedloom.federation.revoked import Revoked
from fedloom.federation.schema import Unfit
from fedloom.federation.service import Gone, Service
from fedloom.federation.wire import LARGEST, Malformed, decoded
from fedloom.federation.wire_pb2 import Beat, Chunk, Update, Want

SERVICE = "fedloom.federation.Federation"
NAME = "fedloom-name"  # what participants call themselves where nothing is secured
FOLDED = "fedloom-folded"  # whether somebody wants files compressed
CALLS = 16  # of one participant at once
PACE, BURST = 50.0, 100  # calls of one participant a second, and how many more at first
CROWD = 256  # calls too many that are answered slowly, which slows down who makes them
SILENCE = 30.0  # seconds in which a message must come, or be taken
BREATH = 0.1  # seconds between two signs of life of one participant, who waits if it has more of them
FRESH = 1.0  # seconds for which the server's own keys are not read again
M = TypeVar("M", bound=Message)
Context = Any  # grpc.aio.ServicerContext
OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", LARGEST),
    ("grpc.max_metadata_size", 2**13),
    ("grpc.absolute_max_metadata_size", 2**14),
    ("grpc.max_concurrent_streams", 16),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 60_000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
)


class Crowded(Exception):
    """More calls of one participant than there may be at once."""


CODES: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (IdentityError, grpc.StatusCode.PERMISSION_DENIED),
    (Malformed, grpc.StatusCode.INVALID_ARGUMENT),
    (Unfit, grpc.StatusCode.INVALID_ARGUMENT),
    (Gone, grpc.StatusCode.FAILED_PRECONDITION),
    (Crowded, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (TimeoutError, grpc.StatusCode.DEADLINE_EXCEEDED),
    (OSError, grpc.StatusCode.UNAVAILABLE),
    (sqlite3.Error, grpc.StatusCode.UNAVAILABLE),
)
"""How errors are told; the first that fits."""


class Call:
    """One call. Its messages are looked at before they are used, and neither side waits for ever.

    Arguments:
        door: that it came through.
        context: gRPC's.
        name: who calls.
    """

    def __init__(self, door: Door, context: Context, name: str) -> None:
        self.door, self.context, self.name = door, context, name

    async def messages(self, kind: type[M], pause: float = 0.0) -> AsyncGenerator[M]:
        """What the caller says, as long as it may call."""
        while True:
            async with asyncio.timeout(SILENCE):
                content = await self.context.read()
            if content is grpc.aio.EOF:
                return
            self.door.name(self.context)
            yield decoded(kind, content)
            await asyncio.sleep(pause)

    async def message(self, kind: type[M]) -> M:
        """The only thing that the caller says."""
        async with aclosing(self.messages(kind)) as messages:
            async for message in messages:
                return message
        raise Malformed("a call that says nothing")

    async def answer(self, message: Message) -> None:
        """Say something to the caller."""
        async with asyncio.timeout(SILENCE):
            await self.context.write(message.SerializeToString())


class Door:
    """Lets calls in.

    Arguments:
        service: what is called.
        revoked: certificates that are no longer accepted.
        secured: whether callers prove who they are; else they are believed.
    """

    def __init__(self, service: Service, revoked: Revoked | None, secured: bool = True) -> None:
        self.service, self.revoked, self.secured = service, revoked, secured
        self.calls: Counter[str] = Counter()
        self.due: dict[str, float] = {}
        self.crowd = 0

    def name(self, context: Context) -> str:
        """Who calls; raises an :class:`IdentityError` for those who may not, and an :class:`OSError` as long as nobody
        can tell.
        """
        if not self.secured:
            said = dict(context.invocation_metadata() or ()).get(NAME, "")
            if not isinstance(said, str) or not NAMED.fullmatch(said):
                raise IdentityError("a participant without a name")
            return said
        who, until = _known(context.auth_context().get("x509_pem_cert", [b""])[0])
        if who.role != "client":
            raise IdentityError(f"{who.name} is a {who.role}, and does not take part")
        if time.time() > until:  # a connection may last longer than what it was opened with
            raise IdentityError(f"this certificate of {who.name} has expired")
        try:
            gone = self.revoked is not None and who.serial in self.revoked
        except IdentityError as error:  # of the list, not of the caller, who may come back when it is good again
            raise OSError(str(error)) from error
        if gone:
            raise IdentityError(f"this certificate of {who.name} has been revoked")
        return who.name

    async def _let_in(self, context: Context, serve: Callable[[Call], Awaitable[None]]) -> None:
        """Serve a call, if its caller may; whatever goes wrong is told to it as one of the errors that it knows."""
        name = ""
        try:
            name = self.name(context)
            with self._room(name):
                await self._turn(name)
                await serve(Call(self, context, name))
        except (grpc.aio.AbortError, grpc.aio.UsageError, grpc.aio.InternalError):
            return  # the caller has gone
        except Exception as error:
            if isinstance(error, Crowded):
                await self._slowly()
            code = next((code for kind, code in CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)
            why = printable(str(error) or "nothing came in time")[:500]
            if code == grpc.StatusCode.PERMISSION_DENIED:
                self.service.coordinator.log("turned away", name=_shown(context), peer=context.peer(), why=why)
            elif code not in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.DEADLINE_EXCEEDED):
                self.service.coordinator.log("trouble", name=name, why=f"{type(error).__name__}: {why}")
            await context.abort(code, why if code != grpc.StatusCode.INTERNAL else "an error of the server's own")

    @contextmanager
    def _room(self, name: str) -> Iterator[None]:
        """Inside, one of the calls that a participant may have at once."""
        if self.calls[name] >= CALLS:
            raise Crowded(f"{name} has {CALLS} calls under way already")
        self.calls[name] += 1
        try:
            yield
        finally:
            self.calls[name] -= 1
            if not self.calls[name]:
                del self.calls[name]

    async def _turn(self, name: str) -> None:
        """Wait until a participant may call once more."""
        now = asyncio.get_running_loop().time()
        self.due[name] = max(self.due.get(name, 0.0), now - BURST / PACE) + 1 / PACE
        if self.due[name] > now:
            await asyncio.sleep(self.due[name] - now)

    async def _slowly(self) -> None:
        """Take one's time, unless too many are made to wait already."""
        if self.crowd < CROWD:
            self.crowd += 1
            try:
                await asyncio.sleep(1.0)
            finally:
                self.crowd -= 1

    async def attend(self, call: Call) -> None:
        """See :meth:`Service.attend`."""
        async with aclosing(self.service.attend(call.name, call.messages(Beat, BREATH))) as orders:
            async for order in orders:
                await call.answer(order)

    async def fetch(self, call: Call) -> None:
        """See :meth:`Service.fetch`."""
        want = await call.message(Want)
        if dict(call.context.invocation_metadata() or ()).get(FOLDED):
            call.context.set_compression(grpc.Compression.Gzip)
        async with asyncio.timeout(self._long), aclosing(self.service.fetch(call.name, want)) as chunks:
            async for chunk in chunks:
                self.name(call.context)
                await call.answer(chunk)

    async def held(self, call: Call) -> None:
        """See :meth:`Service.held`."""
        await call.answer(await self.service.held(call.name, await call.message(Want)))

    async def push(self, call: Call) -> None:
        """See :meth:`Service.push`."""
        async with asyncio.timeout(self._long), aclosing(call.messages(Chunk)) as chunks:
            place = await self.service.push(call.name, chunks)
        await call.answer(place)

    async def submit(self, call: Call) -> None:
        """See :meth:`Service.submit`."""
        await call.answer(await self.service.submit(call.name, await call.message(Update)))

    @property
    def _long(self) -> float:
        """Seconds that a file may be under way: longer nobody waits for it."""
        return self.service.coordinator.rules.deadline + SILENCE

    def handlers(self) -> grpc.GenericRpcHandler:
        """The calls, as gRPC wants them. Messages stay bytes until they are checked here; and all are streams, for
        otherwise gRPC itself would wait for the only message of a call, for ever, before it asks who is calling.
        """

        def handler(serve: Callable[[Call], Awaitable[None]]) -> grpc.RpcMethodHandler:
            async def let_in(_: Any, context: Context) -> None:
                await self._let_in(context, serve)

            return grpc.stream_stream_rpc_method_handler(let_in)

        every = {"Attend": self.attend, "Fetch": self.fetch, "Held": self.held, "Push": self.push,
                 "Submit": self.submit}  # fmt: skip
        return grpc.method_handlers_generic_handler(SERVICE, {name: handler(serve) for name, serve in every.items()})


@lru_cache(maxsize=10_000)
def _known(proof: bytes) -> tuple[Identity, float]:
    """Whom a certificate names, and until when."""
    return identity_of(proof), expiry_of(proof)


def _shown(context: Context) -> str:
    """Whom a caller's certificate names, whether it may call or not."""
    try:
        return identity_of(context.auth_context().get("x509_pem_cert", [b""])[0]).name
    except IdentityError:
        return ""


async def opened(door: Door, address: str, keys: Callable[[], Keys] | None, calls: int) -> tuple[grpc.aio.Server, int]:
    """A server that listens, and its port.

    Arguments:
        door: what it lets calls into.
        address: ``host:port``; port 0 is any that is free.
        keys: reads the server's key and certificates anew for every connection, so that they can change; ``None``
            secures nothing, which only this machine's own address may.
        calls: how many there may be at once.
    """
    listening = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=calls)
    listening.add_generic_rpc_handlers((door.handlers(),))
    if keys is None:
        require(is_loopback(address), "address", "this machine's own (127.0.0.1) without certificates", address)
    secure = credentials(keys) if keys else None
    try:
        port = listening.add_secure_port(address, secure) if secure else listening.add_insecure_port(address)
    except RuntimeError:  # which is how gRPC says that it cannot be bound
        port = 0
    require(port != 0, "address", "one that this machine has and that is free", address)
    await listening.start()
    return listening, port


def credentials(keys: Callable[[], Keys]) -> grpc.ServerCredentials:
    """TLS in which both sides show a certificate of the same authority; changed keys are noticed."""
    held, read = [keys()], [time.monotonic()]

    def configuration() -> Any:
        mine = held[0]
        return grpc.ssl_server_certificate_configuration([(mine.key, mine.cert)], mine.ca)

    def changed() -> Any:
        if time.monotonic() < read[0] + FRESH:
            return None  # whoever connects makes us read them, also those who may not
        read[0] = time.monotonic()
        try:
            fresh = keys()
        except (IdentityError, OSError):
            return None  # half written, perhaps: those before are used a while longer
        if fresh == held[0]:
            return None
        held[0] = fresh
        return configuration()

    return grpc.dynamic_ssl_server_credentials(configuration(), changed, require_client_authentication=True)
