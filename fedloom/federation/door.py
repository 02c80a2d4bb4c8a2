"""Door: a service over gRPC. Who calls is who its certificate says, and nobody else gets in."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from fedloom.errors import IdentityError, require
from fedloom.federation.identity import Keys, Revoked, identity_of
from fedloom.federation.schema import Unfit
from fedloom.federation.service import Gone, Service
from fedloom.federation.wire import LARGEST, Malformed, decoded
from fedloom.federation.wire_pb2 import Beat, Chunk, Update, Want

SERVICE = "fedloom.federation.Federation"
NAME = "fedloom-name"  # what participants call themselves where nothing is secured
M = TypeVar("M", bound=Message)
Context = Any  # grpc.aio.ServicerContext
OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", LARGEST),
    ("grpc.max_metadata_size", 2**13),
    ("grpc.absolute_max_metadata_size", 2**14),
    ("grpc.max_concurrent_streams", 16),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
)


class Door:
    """Lets calls in.

    Arguments:
        service: what is called.
        revoked: certificates that are no longer accepted.
        secured: whether callers prove who they are; else they are believed.
    """

    def __init__(self, service: Service, revoked: Revoked | None, secured: bool = True) -> None:
        self.service, self.revoked, self.secured = service, revoked, secured

    def name(self, context: Context) -> str:
        """Who calls; raises an :class:`IdentityError` for those who may not."""
        if not self.secured:
            said = dict(context.invocation_metadata() or ()).get(NAME, "")
            return said.decode() if isinstance(said, bytes) else said
        proof = context.auth_context().get("x509_pem_cert", [b""])[0]
        who = identity_of(proof)
        if who.role != "client":
            raise IdentityError(f"{who.name} is a {who.role}, and does not take part")
        if self.revoked is not None and who.serial in self.revoked:
            raise IdentityError(f"this certificate of {who.name} has been revoked")
        return who.name

    async def admitted(self, context: Context) -> str:
        """Who calls, if it may."""
        try:
            return self.name(context)
        except IdentityError as error:
            self.service.coordinator.log("turned away", peer=context.peer(), why=str(error))
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
            raise AssertionError from None

    async def beats(self, calls: AsyncIterator[bytes], context: Context) -> AsyncIterator[Beat]:
        """Signs of life, as long as the caller may call."""
        async for content in calls:
            self.name(context)
            yield decoded(Beat, content)

    async def attend(self, calls: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        """See :meth:`Service.attend`."""
        name = await self.admitted(context)
        async for order in self.service.attend(name, self.beats(calls, context)):
            yield order.SerializeToString()

    async def fetch(self, call: bytes, context: Context) -> AsyncIterator[bytes]:
        """See :meth:`Service.fetch`."""
        name = await self.admitted(context)
        try:
            async for chunk in self.service.fetch(name, decoded(Want, call)):
                yield chunk.SerializeToString()
        except (Malformed, Gone) as error:
            await context.abort(_code(error), str(error))

    async def held(self, call: bytes, context: Context) -> bytes:
        """See :meth:`Service.held`."""
        return await self._answer(context, lambda name: self.service.held(name, decoded(Want, call)))

    async def push(self, calls: AsyncIterator[bytes], context: Context) -> bytes:
        """See :meth:`Service.push`."""

        async def chunks() -> AsyncIterator[Chunk]:
            async for content in calls:
                yield decoded(Chunk, content)

        return await self._answer(context, lambda name: self.service.push(name, chunks()))

    async def submit(self, call: bytes, context: Context) -> bytes:
        """See :meth:`Service.submit`."""
        return await self._answer(context, lambda name: self.service.submit(name, decoded(Update, call)))

    async def _answer(self, context: Context, ask: Callable[[str], Awaitable[Message]]) -> bytes:
        name = await self.admitted(context)
        try:
            return (await ask(name)).SerializeToString()
        except (Malformed, Unfit, Gone, OSError, sqlite3.Error) as error:
            if not isinstance(error, Gone):
                self.service.coordinator.log("trouble", name=name, why=str(error))
            await context.abort(_code(error), str(error))
            raise AssertionError from None

    def handlers(self) -> grpc.GenericRpcHandler:
        """The calls, as gRPC wants them; messages stay bytes until they are checked here."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Attend": grpc.stream_stream_rpc_method_handler(self.attend),
                "Fetch": grpc.unary_stream_rpc_method_handler(self.fetch),
                "Held": grpc.unary_unary_rpc_method_handler(self.held),
                "Push": grpc.stream_unary_rpc_method_handler(self.push),
                "Submit": grpc.unary_unary_rpc_method_handler(self.submit),
            },
        )


def _code(error: Exception) -> grpc.StatusCode:
    """How an error is told."""
    if isinstance(error, Malformed | Unfit):
        return grpc.StatusCode.INVALID_ARGUMENT
    return grpc.StatusCode.FAILED_PRECONDITION if isinstance(error, Gone) else grpc.StatusCode.UNAVAILABLE


def is_loopback(address: str) -> bool:
    """Whether an address (``host:port``) is this machine's own.

    >>> is_loopback("127.0.0.1:0"), is_loopback("localhost:8443"), is_loopback("[::1]:1"), is_loopback("0.0.0.0:1")
    (True, True, True, False)
    """
    return address.rpartition(":")[0].strip("[]") in ("localhost", "127.0.0.1", "::1")


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
        port = listening.add_insecure_port(address)
    else:
        port = listening.add_secure_port(address, credentials(keys))
    require(port != 0, "address", "one that this machine has and that is free", address)
    await listening.start()
    return listening, port


def credentials(keys: Callable[[], Keys]) -> grpc.ServerCredentials:
    """TLS in which both sides show a certificate of the same authority; changed keys are noticed."""
    held = [keys()]

    def configuration() -> Any:
        mine = held[0]
        return grpc.ssl_server_certificate_configuration([(mine.key, mine.cert)], mine.ca)

    def changed() -> Any:
        try:
            fresh = keys()
        except (IdentityError, OSError):
            return None  # half written, perhaps: those before are used a while longer
        if fresh == held[0]:
            return None
        held[0] = fresh
        return configuration()

    return grpc.dynamic_ssl_server_credentials(configuration(), changed, require_client_authentication=True)
