"""A server and its participants as processes of this machine, for benchmarks that kill them."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedloom.federation.authority import init, issue
from fedloom.federation.points import CRASH, POINTS

Event = dict[str, Any]


def command(arguments: Sequence[str], told: Mapping[str, str], log: Path) -> None:
    """The command line, in a process that has imported everything before."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.environ.update(told)
    sys.argv = ["fedloom", *arguments]
    from fedloom.cli import main

    main()


class Forked:
    """A process that is forked from one that has imported everything, and so begins at once."""

    def __init__(self, arguments: Sequence[str], told: Mapping[str, str], log: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        needed = ("cli.federation", "federation.course", "federation.hosting", "federation.joining", "runs.plot")
        context.set_forkserver_preload([f"fedloom.{name}" for name in needed])
        self.process = context.Process(target=command, args=(arguments, told, log), daemon=True)
        self.process.start()
        self.kill = self.process.kill

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        return self.process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        """Its exit code, when it has ended."""
        self.process.join(seconds)
        if self.process.exitcode is None:
            raise TimeoutError(f"it has not ended in {seconds:g} seconds")
        return self.process.exitcode


Running = Forked | subprocess.Popen[bytes]


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def said(folder: Path) -> list[Event]:
    """All that the server of a folder has said, in every life of it."""
    file = folder / "log.jsonl"
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1] if line.endswith(b"}")]


def keys(folder: Path, names: Sequence[str]) -> Path:
    """An authority with a server's certificate and some participants'."""
    init(folder, "a benchmark")
    issue(folder, "server", hosts=["localhost", "127.0.0.1"], role="server")
    for name in names:
        issue(folder, name)
    return folder


@dataclass
class Served:
    """One run over loopback with mutual TLS; the command line's own server and participants.

    Arguments:
        folder: of the run, the participants and their output.
        keys: of :func:`keys`.
        options: of the server.
        data: options of the participants; each takes a part of its own.
    """

    folder: Path
    keys: Path
    options: Sequence[str]
    data: Sequence[str]
    port: int = field(default_factory=free_port)
    names: list[str] = field(default_factory=list)
    server: Running | None = None
    clients: dict[str, Running] = field(default_factory=dict)
    spawned: float = 0.0
    since: int = 0

    def serve(self, crash: str | None = None, points: Path | None = None, cold: bool = False) -> None:
        """Start the server, or start it again with the same command; cold, it has to import everything."""
        self.since, self.spawned = len(self.events()), time.time()
        told = {CRASH: crash or "", POINTS: str(points or "")}
        self.server = self._started(
            "server", told, cold, "server", "--keys", str(self.keys / "server"), "--listen", f"127.0.0.1:{self.port}",
            "--page", "none", "--out", str(self.folder / "served"), *self.options,
        )  # fmt: skip

    def join(self, name: str) -> None:
        """Start a participant, or start it again with the same command; its number is its place among the names."""
        if name not in self.names:
            self.names.append(name)
        self.clients[name] = self._started(
            name, {}, False, "client", "--keys", str(self.keys / name), "--server", f"localhost:{self.port}",
            "--out", str(self.folder / "joined"), "--part", str(self.names.index(name)), *self.data,
        )  # fmt: skip

    def _started(self, name: str, told: dict[str, str], cold: bool, *arguments: str) -> Running:
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{name}.log"
        if not cold:
            return Forked(arguments, told, log)
        with log.open("ab") as file:
            program = [sys.executable, "-m", "fedloom", *arguments]
            return subprocess.Popen(program, stderr=file, stdout=file, env=os.environ | told)

    def events(self) -> list[Event]:
        """All that the server has said, in every life of it."""
        return said(self.folder / "served")

    def now(self) -> list[Event]:
        """What it has said in this life."""
        return self.events()[self.since :]

    def until(self, found: Callable[[list[Event]], Any], seconds: float = 300.0) -> Any:
        """What there is to be found in what the server says, once it is there; ``None`` if the server ends before."""
        end = time.time() + seconds
        while time.time() < end:
            ended = self.server is None or self.server.poll() is not None
            assert not any(process.poll() for process in self.clients.values()), "a participant has ended"
            if (what := found(self.now())) is not None:
                return what
            if ended:
                return None
            time.sleep(0.01)
        raise TimeoutError(f"nothing of it in {seconds:g} seconds: {self.now()[-5:]}")

    def came(self, events: list[Event]) -> float | None:
        """When the last of all participants was there."""
        first = {event["name"]: event["time"] for event in reversed(events) if event["event"] == "came"}
        return max(first.values()) if first and first.keys() >= set(self.names) else None

    def on(self, events: list[Event]) -> dict[str, float] | None:
        """Seconds from the start of the server: until it listens, everybody is back, and a round goes on."""
        back = self.came(events)
        worked = next((e["time"] for e in events if e["event"] in ("update", "closed")), None)
        serving = next((e["time"] for e in events if e["event"] == "serving"), None)
        if back is None or worked is None or serving is None:
            return None
        moments = {"listens": serving, "everybody_back": back, "goes_on": max(back, worked)}
        return {name: round(moment - self.spawned, 2) for name, moment in moments.items()}

    def kill(self) -> None:
        """End the server without any farewell."""
        assert self.server is not None
        self.server.kill()
        self.server.wait()

    def rounds(self) -> dict[int, tuple[str, str]]:
        """The digests of the state and the model after each round, as the journal has them."""
        connection = sqlite3.connect(f"file:{self.folder / 'served' / 'journal.sqlite'}?mode=ro", uri=True)
        try:
            rows = connection.execute("SELECT round, state, model FROM rounds WHERE outcome = 'closed'").fetchall()
            return {row[0]: (row[1], row[2]) for row in rows}
        finally:
            connection.close()

    def attempts(self) -> dict[int, int]:
        """How often each round was begun."""
        connection = sqlite3.connect(f"file:{self.folder / 'served' / 'journal.sqlite'}?mode=ro", uri=True)
        try:
            return dict(connection.execute("SELECT round, COUNT(*) FROM rounds GROUP BY round").fetchall())
        finally:
            connection.close()

    def trained(self, name: str) -> int:
        """How often a participant began local work, in every life of it."""
        return (self.folder / f"{name}.log").read_text().count(": training")

    def end(self, seconds: float = 600.0) -> dict[str, Any]:
        """Wait for the end: exit codes, and the final model as the server and as each participant has it."""
        processes = {"server": self.server, **self.clients}
        codes = {name: process.wait(seconds) for name, process in processes.items() if process}
        models = {(self.folder / "joined" / name / "model.safetensors").read_bytes() for name in self.names}
        return {"codes": codes, "models": len(models)}

    def stop(self) -> None:
        """End whatever still runs."""
        for process in (self.server, *self.clients.values()):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
