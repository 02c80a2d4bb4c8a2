"""Hosting: a server from its first start to the end of its run: files, door, page, signals."""

from __future__ import annotations

import asyncio
import secrets
import signal
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fedloom.errors import CheckpointError, IdentityError, require
from fedloom.federation.address import is_loopback, parted
from fedloom.federation.certificate import expiry_of
from fedloom.federation.coordinator import Coordinator
from fedloom.federation.course import Course
from fedloom.federation.disk import Disk
from fedloom.federation.door import Door, opened
from fedloom.federation.folder import CA, CERT, KEY
from fedloom.federation.identity import identity_of
from fedloom.federation.journal import Journal
from fedloom.federation.keys import Keys
from fedloom.federation.log import Log, lines, several, silent, sparing
from fedloom.federation.page import Page, start_page
from fedloom.federation.points import from_environment
from fedloom.federation.recovery import FILES, JOURNAL, LOG, check_journal_is_there, put_aside
from fedloom.federation.revoked import Revoked
from fedloom.federation.service import Service
from fedloom.federation.status import status
from fedloom.federation.void import is_exhausted
from fedloom.runs.lock import alone, is_held
from fedloom.runs.ownership import whose
from fedloom.runs.record import DIVERGED, FINISHED, INTERRUPTED, RUNNING, Record
from fedloom.runs.result import Run, write_history, write_model

LINGER = 60.0  # seconds that a server stays after the end, for participants to fetch the final model
GRACE = 0.3  # seconds for participants to hear that a server leaves


@dataclass(frozen=True)
class Place:
    """Where a server is, and who may come.

    Arguments:
        folder: where everything is kept: a server that is begun again with the same folder goes on.
        address: ``host:port`` for participants.
        page: ``host:port`` of the live page; ``None`` shows none.
        keys: the server's folder of :func:`fedloom.federation.authority.issue`; ``None`` secures nothing, which only
            this machine's own address may.
        revoked: the file of certificates that are no longer accepted.
        log: told of what happens, beside the folder's own log.
        started: called with the ports of both, once participants can come.
        new_run: begin a new run in a folder whose run cannot go on, because its journal or its state is lost or
            damaged; the files of that run are moved to a folder ``before-1`` within it.
    """

    folder: Path
    address: str
    page: str | None = None
    keys: Path | None = None
    revoked: Path | None = None
    log: Log = silent
    started: Callable[[int, int | None], None] = field(default=lambda port, page: None)  # noqa: ARG005
    new_run: bool = False

    def __post_init__(self) -> None:
        """Before anything is written, be sure that it can be served."""
        parted("address", self.address)
        if self.page is not None:
            parted("page", self.page)
        if self.keys is not None:
            who = identity_of(Keys.read(self.keys).cert)
            require(who.role == "server", "keys", "a server's (fedloom keys issue … --server HOST)",
                    f"{self.keys}, of the {who.role} {who.name}")  # fmt: skip


def host(course: Course, place: Place) -> Run:
    """Serve a run until it is over, or until a signal asks to stop; begun again, it goes on."""
    return asyncio.run(hosted(course, place))


async def hosted(course: Course, place: Place) -> Run:
    """The same inside an event loop."""
    many_files()
    place.folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened_files:
        opened_files.enter_context(alone(place.folder, "server"))
        if place.new_run:
            put_aside(place.folder)
        check_journal_is_there(place.folder)
        file = opened_files.enter_context((place.folder / LOG).open("a", encoding="utf-8"))
        log, reach = sparing(several(place.log, lines(file))), from_environment()
        journal = Journal(place.folder / JOURNAL, reach)
        try:
            disk = Disk(place.folder / FILES, reach)
            coordinator = Coordinator(course, journal, disk, time.time, secrets.token_hex(8), log)
            kept(coordinator, place.folder, RUNNING)  # what the folder says if this process is killed
            async with signals() as asked:
                await _attended(Service(coordinator), place, log, asked)
            return kept(coordinator, place.folder)
        finally:
            journal.close()


async def _attended(service: Service, place: Place, log: Log, asked: asyncio.Event) -> None:
    """Let participants in until the run is over or somebody asks to stop."""
    revoked = Revoked(place.revoked) if place.revoked else None
    keys = partial(Keys.read, place.keys) if place.keys else None
    door = Door(service, revoked, keys is not None)
    calls = 4 * service.coordinator.rules.connections
    server, port = await opened(door, place.address, keys, calls)
    page: Page | None = None
    try:
        if place.page:
            page = await paged(service.coordinator, place, revoked)
        log("serving", port=port, page=page.port if page else None, run=service.coordinator.run,
            round=service.coordinator.round)  # fmt: skip
        place.started(port, page.port if page else None)
        ending = asyncio.create_task(asked.wait())
        running = asyncio.create_task(service.run())
        await asyncio.wait([running, ending], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
            await _linger(service.coordinator, asked)
        else:
            log("asked to stop", round=service.coordinator.round)
            await _ended(running)  # before participants leave, or their round would be given up
            service.coordinator.dismiss()
            await asyncio.sleep(GRACE)
        await _ended(running, ending)
    finally:
        if page is not None:
            await page.close()
        await server.stop(0.5)


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    """End tasks, whatever they were doing."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _linger(coordinator: Coordinator, asked: asyncio.Event) -> None:
    """After the end, stay until everybody knows and has the final model; for those who are away, not for long."""
    loop = asyncio.get_running_loop()
    over = loop.time()
    while not asked.is_set() and loop.time() < over + LINGER:
        soon = loop.time() < over + coordinator.rules.patience
        if not coordinator.present and not (coordinator.awaited and soon):
            return
        await asyncio.sleep(0.1)


async def paged(coordinator: Coordinator, place: Place, revoked: Revoked | None) -> Page:
    """The live page, behind the same certificates."""
    assert place.page is not None
    if place.keys is None:
        require(
            is_loopback(place.page), "page", "this machine's own address (127.0.0.1) without certificates", place.page
        )
        return await start_page(partial(status, coordinator), place.page, tls=None, admit=lambda der: True)  # noqa: ARG005
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(place.keys / CERT, place.keys / KEY)
    context.load_verify_locations(place.keys / CA)
    context.verify_mode = ssl.CERT_REQUIRED

    def admit(der: bytes | None) -> bool:
        if der is None:
            return False
        try:
            pem = ssl.DER_cert_to_PEM_cert(der).encode()
            who = identity_of(pem)
            return time.time() <= expiry_of(pem) and (revoked is None or who.serial not in revoked)
        except IdentityError:
            return False

    return await start_page(partial(status, coordinator), place.page, tls=context, admit=admit)


def kept(coordinator: Coordinator, folder: Path, status: str | None = None) -> Run:
    """Write the history and the model of a run so far into its folder, and return the run."""
    course, variables = coordinator.course, coordinator.state.variables
    stopped = coordinator.stopped or "interrupted: begin the server again with the same folder, and it goes on"
    over = DIVERGED if is_exhausted(coordinator.history.rows) else FINISHED
    status = status or (over if coordinator.stopped else INTERRUPTED)
    whose_model = whose(course.arithmetic.algorithm, variables, 0)
    whose_model["monitor"] = (course.stop.monitor or "") if course.stop.watches else ""
    record = Record(course.label, coordinator.history, coordinator.round, status, "" if status == RUNNING else stopped,
                    **whose_model)  # fmt: skip
    write_model(folder, record, variables)
    write_history(folder, record)
    return Run(course.label, coordinator.history, variables, stopped, status, folder, **whose_model)


def many_files() -> None:
    """Let this process open as many files as it may: a connection is one, and half-open ones are not to keep others
    out.
    """
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@asynccontextmanager
async def signals() -> AsyncIterator[asyncio.Event]:
    """Inside, an event that is set when somebody asks this process to end: Ctrl-C, or ``kill``."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    every = (signal.SIGINT, signal.SIGTERM)
    installed = []
    for one in every:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(one, asked.set)
            installed.append(one)
    try:
        yield asked
    finally:
        for one in installed:
            loop.remove_signal_handler(one)


def standing(folder: Path) -> Mapping[str, Any]:
    """How a run stands, read from its folder; its server may be there or not."""
    if not (folder / JOURNAL).is_file():
        raise CheckpointError(f"{folder} holds no run of a server: there is no {JOURNAL}")
    journal = Journal.reading(folder / JOURNAL)
    try:
        about, under_way = journal.about(), journal.opened()
        members = journal.members()
        return {
            "run": about.get("run", ""), "round": len(journal.rows()),
            "state": ("in a round" if under_way else "between rounds") if is_held(folder) else "no server is there",
            "participants": [vars(member) for member in members.values()],
            "history": journal.rows(), "refused": [vars(refused) for refused in journal.refusals()],
            "void": [vars(void) for void in journal.voids()], "aborted": journal.voided(),
            "voids": sum(int(row.get("void", 0)) for row in journal.rows()),
        }  # fmt: skip
    finally:
        journal.close()
