"""Page: what a run is doing now, for a browser and for Prometheus; it can be read and nothing else."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import math
import re
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, cast

from fedloom.errors import FedloomError, MissingExtra
from fedloom.federation.address import parted

try:
    from aiohttp import web
except ModuleNotFoundError as error:
    raise MissingExtra("aiohttp", "federation") from error
try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
except ModuleNotFoundError as error:
    raise MissingExtra("prometheus_client", "federation") from error

Status = Callable[[], Mapping[str, Any]]
Admit = Callable[[bytes | None], bool]

STATES = ("working", "replied", "idle", "gone", "quarantined")
"""What a participant can be."""
BOOKKEEPING = ("round", "seconds", "steps", "bytes_up", "bytes_down", "replies", "asked", "attempt", "void")
"""The columns of a history that are not metrics of the model."""

CONNECTIONS = 64
"""So many at once; whoever comes then waits until somebody leaves."""
HANDSHAKE = 5.0
"""Seconds in which a peer has to show its certificate."""
PATIENCE = 30.0
"""Seconds in which a peer has to read the last answer and send its next request, all of it."""
LIMITS: dict[str, Any] = {
    "keepalive_timeout": 15.0,
    "lingering_time": 1.0,
    "max_line_size": 2048,
    "max_field_size": 4096,
    "max_headers": 64,
    "auto_decompress": False,
    "access_log": None,
    "shutdown_timeout": 1.0,
}

CLOSED = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Server": "fedloom",
}
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
REFUSED = "This page is for those whose certificate this federation knows and lets in.\n"


class Page:
    """A page that is being served, until it is closed."""

    def __init__(self, runner: web.AppRunner, sockets: list[socket.socket], tls: ssl.SSLContext | None) -> None:
        self.port: int = sockets[0].getsockname()[1]
        self._runner, self._sockets, self._tls = runner, sockets, tls
        self._room = asyncio.Semaphore(CONNECTIONS)
        self._made: set[Connection] = set()
        self._tasks = {asyncio.create_task(self._accept(listening)) for listening in sockets}

    async def close(self) -> None:
        """Stop listening and end every connection; a second time does nothing."""
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listening in self._sockets:
            listening.close()
        await self._runner.cleanup()
        for connection in list(self._made):
            connection.abort()
        while self._made:
            await asyncio.sleep(0.01)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                peer, _ = await loop.sock_accept(listening)
            except OSError:  # no file descriptors left, or a peer that has gone already
                self._room.release()
                await asyncio.sleep(0.1)
                continue
            task = asyncio.create_task(self._greet(peer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _greet(self, peer: socket.socket) -> None:
        assert self._runner.server is not None
        connection = Connection(self._runner.server(), self._made)
        patience = {} if self._tls is None else {"ssl_handshake_timeout": HANDSHAKE, "ssl_shutdown_timeout": 2.0}
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: connection, peer, ssl=self._tls, **patience)
            await connection.lost.wait()
        except OSError:  # no certificate, a wrong one, none in time
            pass
        finally:
            self._room.release()


class Connection(asyncio.Protocol):
    """A connection that ends when its peer dawdles; it is among those that are made until it is lost."""

    def __init__(self, handler: web.RequestHandler, made: set[Connection]) -> None:
        self.lost = asyncio.Event()
        self._handler, self._made = handler, made
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def renew(self) -> None:
        """A whole request has come; the time for its answer and for the next request begins."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(PATIENCE, self.abort)

    def abort(self) -> None:
        """End it now, whatever is on its way."""
        assert self._transport is not None
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The peer is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._made.add(self)
        self.renew()
        self._handler.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer is gone."""
        assert self._timer is not None
        self._timer.cancel()
        self._handler.connection_lost(exc)
        self._made.discard(self)
        self.lost.set()

    def data_received(self, data: bytes) -> None:
        """The peer sends; whether it is a whole request yet, the handler knows."""
        self._handler.data_received(data)

    def eof_received(self) -> None:
        """The peer sends no more."""
        self._handler.eof_received()

    def pause_writing(self) -> None:
        """The peer does not read as fast as we write."""
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        """The peer has read."""
        self._handler.resume_writing()


async def start_page(status: Status, address: str, *, tls: ssl.SSLContext | None, admit: Admit) -> Page:
    """Serve ``/`` (a page that keeps itself up to date), ``/status`` (JSON) and ``/metrics`` (for Prometheus).

    Arguments:
        status: what the run is doing, asked anew at each request.
        address: host:port; port 0 takes a free one, see :attr:`Page.port`.
        tls: with which certificate to answer and whose to ask for; None serves in the clear.
        admit: whether a peer may read, from its certificate (DER; None if it showed none), asked at each request.
    """
    sockets = await listen(address)
    application = web.Application(middlewares=[_guard(admit)], client_max_size=1024)
    application.on_response_prepare.append(_close_up)
    application.router.add_get("/", _page(), allow_head=False)
    application.router.add_get("/status", _status(status), allow_head=False)
    application.router.add_get("/metrics", _metrics(status), allow_head=False)
    runner = web.AppRunner(application, **LIMITS)
    await runner.setup()
    return Page(runner, sockets, tls)


async def listen(address: str) -> list[socket.socket]:
    """Listen at every address of a host, on one port."""
    host, port = parted("address", address)
    with contextlib.ExitStack() as opened:
        try:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            sockets: list[socket.socket] = []
            for family, place in dict.fromkeys((family, place) for family, *_, place in found):
                taken = sockets[0].getsockname()[1] if sockets else place[1]
                made = socket.create_server((place[0], taken, *place[2:]), family=family, backlog=CONNECTIONS)
                sockets.append(opened.enter_context(made))
                made.setblocking(False)
        except OSError as error:
            raise FedloomError(f"the page cannot be served at {address} ({error})") from error
        opened.pop_all()
    return sockets


def plain(value: Any) -> Any:
    """A value as JSON can carry it: numbers that are not finite become null.

    >>> plain({"round": 3, "test_loss": float("nan"), "norms": (0.5, float("inf"))})
    {'round': 3, 'test_loss': None, 'norms': [0.5, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "item"):  # a number of NumPy
        return plain(value.item())
    return [plain(item) for item in value]


def policy(html: str) -> str:
    """The Content-Security-Policy under which a page can do what is written in it and nothing more."""

    def hashes(tag: str) -> str:
        inside = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(i.encode()).digest()).decode()}'" for i in inside)

    needed = {
        "script-src": hashes("script"),
        "style-src": hashes("style"),
        "connect-src": "'self'",
        "img-src": "data:",
        "require-trusted-types-for": "'script'",
    }
    return "; ".join((NOTHING, *(f"{name} {value}" for name, value in needed.items())))


class Families:
    """What Prometheus reads of a status; names of participants are not in it."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self.status = status

    def collect(self) -> Iterator[Metric]:
        """One family after another."""
        status, people = self.status, self.status.get("participants", ())
        yield GaugeMetricFamily("fedloom_up", "1 while the server answers", 1)
        yield GaugeMetricFamily("fedloom_round", "The round that the run is in", status.get("round", 0))
        yield CounterMetricFamily("fedloom_rounds_aborted", "Rounds given up", status.get("aborted", 0))
        voids = sum(row.get("void", 0) for row in status.get("history", ()))
        yield CounterMetricFamily("fedloom_rounds_void", "Rounds whose updates left no usable model", voids)
        states = Counter(dict.fromkeys(STATES, 0))
        states.update(person["state"] for person in people)
        yield _family(GaugeMetricFamily, "fedloom_participants", "Participants by what they do", "state", states)
        sent = {way: status.get(f"bytes_{way}", 0) for way in ("up", "down")}
        yield _family(CounterMetricFamily, "fedloom_bytes", "Bytes of models and updates", "direction", sent)
        ends = {end: sum(person.get(end, 0) for person in people) for end in ("counted", "late", "refused")}
        yield _family(CounterMetricFamily, "fedloom_updates", "Updates by what became of them", "outcome", ends)
        last: dict[str, float] = {}
        for row in status.get("history", ()):
            last.update({name: value for name, value in row.items() if value is not None})
        metrics = {name: value for name, value in last.items() if name not in BOOKKEEPING}
        yield _family(GaugeMetricFamily, "fedloom_metric", "The last value of each metric", "name", metrics)
        if (took := _took(status.get("history", ()))) is not None:
            yield GaugeMetricFamily("fedloom_round_seconds", "Seconds that the last round took", took)


def _took(history: Sequence[Mapping[str, float]]) -> float | None:
    """Seconds a round, between the last two rows of a history, whose seconds are those of all rounds so far."""
    before, last = [{"round": 0, "seconds": 0.0}, *history[-2:]][-2:] if history else ({}, {})
    rounds = last.get("round", 0) - before.get("round", 0)
    return (last["seconds"] - before["seconds"]) / rounds if rounds > 0 else None


def _family(kind: Callable[..., Any], name: str, says: str, label: str, values: Mapping[str, float]) -> Metric:
    family = kind(name, says, labels=[label])
    for value, amount in values.items():
        family.add_metric([value], amount)
    return cast(Metric, family)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _guard(admit: Admit) -> Any:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.transport is None:  # gone before its request was looked at
            raise web.HTTPBadRequest
        cast(Connection, request.transport.get_protocol()).renew()
        secured = request.transport.get_extra_info("ssl_object")
        if admit(secured.getpeercert(binary_form=True) if secured else None):
            return await handler(request)
        refusal = web.Response(text=REFUSED, status=403)
        refusal.force_close()
        return refusal

    return guard


async def _close_up(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(CLOSED)
    response.headers.setdefault("Content-Security-Policy", NOTHING)


def _page() -> Handler:
    html = files("fedloom.federation").joinpath("page.html").read_text(encoding="utf-8")
    headers = {"Content-Security-Policy": policy(html)}

    async def page(_: web.Request) -> web.StreamResponse:
        response = web.Response(text=html, content_type="text/html", headers=headers)
        response.enable_compression()
        return response

    return page


def _status(status: Status) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        after = request.query.get("after", "-1")  # who has the history up to a round asks for the rest alone
        if not re.fullmatch(r"-1|[0-9]{1,9}", after):
            return web.Response(text="after must be the number of a round.\n", status=400)
        found = dict(status())
        found["history"] = [row for row in found.get("history", ()) if row["round"] > int(after)]
        response = web.Response(text=json.dumps(plain(found), allow_nan=False), content_type="application/json")
        response.enable_compression()
        return response

    return answer


def _metrics(status: Status) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(cast(Any, Families(status())))
        headers = {"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
        return web.Response(body=generate_latest(registry), headers=headers)

    return answer
