"""A real server under load: a thousand participants at once, and one with a model of 400 MB.

    python benchmarks/load.py                      # both; writes results/load-<device>.json
    python benchmarks/load.py --participants 200   # fewer

Server and participants are processes of this machine and share its cores, which a server elsewhere has for itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
import sockets
import typer
from crowd import Times, attended
from hardware import slug
from rich.console import Console
from timing import RESULTS, device, keep

import fedloom as fl
from fedloom.federation import Rules
from fedloom.federation.arithmetic import arithmetic
from fedloom.federation.authority import init, issue
from fedloom.runs.stopping import Stop

SPAWN = get_context("spawn")
FILES = 20_000  # that a process may have open
LARGE = 100_000_000  # numbers of the large model
MEMORY = Path("/dev/shm")  # where participants keep their files, so that only the server waits for the disk
console = Console()


def task(large: bool) -> fl.tasks.Task:
    """What is learned: the 2NN, or one array of 400 MB."""
    if not large:
        return fl.tasks.two_nn()
    return fl.tasks.from_function(
        lambda key: {"w": jnp.zeros(LARGE)},  # noqa: ARG005
        lambda params, x: x @ params["w"][:4].reshape(2, 2),
    )


def serving(told: Connection, folder: Path, keys: Path, large: bool, fraction: float, rounds: int, begin: int) -> None:
    """A server, until its run is over: its port first, and what it took in the end."""
    roomy()
    rules = Rules(begin=begin, over=1.0, patience=0.0)
    started, before = [0.0], [0.0]

    def ready(port: int, page: int | None) -> None:  # noqa: ARG001
        started[0], before[0] = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        told.send(port)

    run = fl.federation.serve(
        task(large), fl.fedavg(fraction=fraction), folder=folder, address="127.0.0.1:0", keys=keys / "server",
        revoked=keys / "revoked.json", stop=Stop(rounds=rounds), rules=rules, started=ready,
    )  # fmt: skip
    used = resource.getrusage(resource.RUSAGE_SELF)
    told.send(
        {
            "rows": [dict(row) for row in run.history.rows],
            "seconds": time.perf_counter() - started[0],
            "cpu_seconds": used.ru_utime + used.ru_stime,
            "peak_bytes": used.ru_maxrss * 1024,
            "first_bytes": before[0],
        }
    )


def taking_part(
    told: Connection, server: str, keys: Path, folder: Path, large: bool, fraction: float, names: Sequence[str],
    asking: bool,
) -> None:  # fmt: skip
    """Some participants, until the run is over: their times."""
    roomy()
    mine = arithmetic(task(large), fl.fedavg(fraction=fraction), 0)
    times: Times = defaultdict(list)
    asyncio.run(attended(server, keys, folder, mine, names, asking, times))
    told.send(dict(times))


def roomy() -> None:
    """Let this process have as many connections as it needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


@contextmanager
def folders() -> Iterator[tuple[Path, Path]]:
    """A folder of the server's on the disk, and one of the participants' in memory, if there is such a place."""
    with (
        tempfile.TemporaryDirectory() as disk,
        tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as memory,
    ):
        yield Path(disk), Path(memory)


def certificates(folder: Path, participants: int) -> Path:
    """An authority, and a certificate for everyone."""
    keys = init(folder, "load")
    issue(keys, "server", role="server", hosts=("localhost", "127.0.0.1"))
    for name in (*people(participants), "asker"):
        issue(keys, name)
    return keys


def people(participants: int) -> list[str]:
    """The participants' names."""
    return [f"p{i:04d}" for i in range(participants)]


def exchanged(
    keys: Path, large: bool, fraction: float, rounds: int, participants: int, processes: int, asker: bool
) -> tuple[dict[str, Any], Times]:
    """A run from begin to end: what the server tells, and how long calls took."""
    with folders() as (disk, memory):
        here, there = SPAWN.Pipe()
        begin = participants + asker
        server = SPAWN.Process(target=serving, args=(there, disk / "served", keys, large, fraction, rounds, begin))
        server.start()
        there.close()  # or a server that dies would be waited for
        address = f"localhost:{here.recv()}"
        parts = [(list(part), False) for part in np.array_split(np.array(people(participants)), processes)]
        parts += [(["asker"], True)] if asker else []
        crowd = []
        for names, asking in parts:
            ear, mouth = SPAWN.Pipe()
            arguments = (mouth, address, keys, memory, large, fraction, names, asking)
            crowd.append((ear, SPAWN.Process(target=taking_part, args=arguments)))
            crowd[-1][1].start()
            mouth.close()
        times: Times = defaultdict(list)
        for ear, process in crowd:
            for name, found in ear.recv().items():
                times[name] += found
            process.join()
        told = here.recv()
        server.join()
    return told, times


def crowded(keys: Path, fraction: float, rounds: int, participants: int, processes: int) -> dict[str, Any]:
    """Many participants and the 2NN."""
    told, times = exchanged(keys, False, fraction, rounds, participants, processes, asker=True)
    ends = [row["seconds"] for row in told["rows"]]
    between = np.diff(ends).tolist()
    return {
        "participants": participants,
        "fraction": fraction,
        "rounds": len(told["rows"]),
        "updates_a_round": statistics.median(row["replies"] for row in told["rows"]),
        "first_round_after_seconds": ends[0],
        "seconds_a_round": statistics.median(between) if between else None,
        "longest_round_seconds": max(between, default=None),
        "connections_lost": len(times.pop("lost", [])),
        "milliseconds": {name: spread(found) for name, found in sorted(times.items())},
        "server_cpu_seconds": told["cpu_seconds"],
        "server_cores": told["cpu_seconds"] / told["seconds"],
        "server_peak_bytes": told["peak_bytes"],
        "server_bytes_before": told["first_bytes"],
        "load": os.getloadavg(),
    }


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """How long calls took, in milliseconds."""
    p50, p99 = np.percentile(seconds, [50, 99]) * 1000
    return {"calls": len(seconds), "p50": float(p50), "p99": float(p99), "longest": max(seconds) * 1000}


def thrown(keys: Path, repeat: int) -> dict[str, Any]:
    """One participant with a model of 400 MB, beside plain sockets."""
    size = LARGE * 4
    plain, secure, moved = [], [], []
    for _ in range(repeat):
        plain.append(size / sockets.seconds(size, None) / 1e9)
        secure.append(size / sockets.seconds(size, keys) / 1e9)
        moved.append(exchanged(keys, True, 1.0, 1, 1, 1, asker=False))
    tcp, tls = statistics.median(plain), statistics.median(secure)
    found: dict[str, Any] = {"bytes": size, "tcp_gigabytes_a_second": plain, "tls_gigabytes_a_second": secure}
    for name in ("fetch", "push"):
        speeds = [size / times[name][0] / 1e9 for _, times in moved]
        one = statistics.median(speeds)
        found[name] = {"gigabytes_a_second": speeds, "median": one, "of_tcp": one / tcp, "of_tls": one / tls}
    found["submit_seconds"] = [times["submit"][0] for _, times in moved]
    found["server_peak_bytes"] = max(told["peak_bytes"] for told, _ in moved)
    found["server_bytes_before"] = max(told["first_bytes"] for told, _ in moved)
    found["load"] = os.getloadavg()
    return found


def recorded() -> dict[str, Any]:
    """What has been recorded before, by part."""
    file = RESULTS / f"load-{slug(device())}.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    return {part: before[part] for part in ("crowd", "large") if part in before}


def main(
    participants: Annotated[int, typer.Option(help="at once")] = 1000,
    rounds: Annotated[int, typer.Option(help="with a tenth of them in each")] = 20,
    full: Annotated[int, typer.Option(help="rounds with all of them in each")] = 3,
    processes: Annotated[int, typer.Option(help="that participants are spread over")] = 4,
    repeat: Annotated[int, typer.Option(help="times for the large model")] = 3,
    only: Annotated[str, typer.Option(help="crowd or large: only this; what is recorded of the other stays")] = "",
) -> None:
    """Measure, and record what was found."""
    found = recorded()
    with tempfile.TemporaryDirectory() as home:
        start = time.perf_counter()
        keys = certificates(Path(home) / "keys", participants if only != "large" else 1)
        console.print(f"{participants + 2:,} certificates in {time.perf_counter() - start:.1f} s")
        if only != "large":
            found["crowd"] = [crowded(keys, 0.1, rounds, participants, processes)]
            console.print(found["crowd"][-1])
            if full:
                found["crowd"].append(crowded(keys, 1.0, full, participants, processes))
                console.print(found["crowd"][-1])
            keep("load", **found)
        if only != "crowd":
            found["large"] = thrown(keys, repeat)
            console.print(found["large"])
            keep("load", **found)


if __name__ == "__main__":
    typer.run(main)
