"""What the mailbox costs and what it hides, between two ranks on this machine.

Throughput: both ranks send each other the same contiguous bytes, through the mailbox and by a plain ``Sendrecv``.
Hiding: of the time that models are on their way, the share during which the rank that needs them still trains, and the
share during which it does not stand and wait.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import jax
import mpi4py
import numpy as np
import typer
from hardware import cpu
from mpi4py import MPI

import fedloom as fl
from fedloom.engines.exchange import Along
from fedloom.engines.mailbox import Address, Mailbox
from fedloom.engines.rank import Rank, rank
from fedloom.engines.world import World, owners, world
from fedloom.runs.roster import roster

RESULTS = Path(__file__).resolve().parent.parent / "results"
SIZES = {"2NN": 199_210 * 4, "CNN": 1_663_370 * 4, "64 MB": 64_000_000}  # bytes
TASKS = {"2NN": fl.tasks.two_nn, "CNN": fl.tasks.cnn}
Interval = tuple[float, float]


def throughput(here: World, size: int, repeat: int) -> dict[str, float]:
    """Bytes a second each way, the median of several exchanges."""
    mine, room = np.ones(size // 4, np.float32), [np.empty(size // 4, np.float32) for _ in range(2)]
    other, ends = 1 - here.rank, {"plain": [0.0], "mailbox": [0.0]}
    here.notes.Barrier()
    for round in range(repeat):
        here.letters.Sendrecv(mine, other, 0, room[round % 2], other, 0)
        ends["plain"].append(time.perf_counter())
    mailbox = Mailbox(here)
    mailbox.expect(other, (0, 0), room[0])
    for round in range(repeat):
        mailbox.expect(other, (round + 1, 0), room[(round + 1) % 2])
        mailbox.post(mine, other, (round, 0))
        mailbox.take([(round, 0)])
        ends["mailbox"].append(time.perf_counter())
    mailbox.post(mine, other, (repeat, 0))
    mailbox.take([(repeat, 0)])
    mailbox.close()
    found = {name: size / statistics.median(np.diff(times[repeat // 4 :])) for name, times in ends.items()}
    return {**{f"{name}_gb_a_second": value / 1e9 for name, value in found.items()},
            "ratio": found["mailbox"] / found["plain"]}  # fmt: skip


def hidden(here: World, model: str, each: int, rounds: int) -> dict[str, float]:
    """Training along a ring: seconds that models were on their way, and how much of them was hidden."""
    workers = each * here.size
    data = fl.data.mnist().partition(fl.partition.iid(workers))
    algorithm = fl.dpa_sgd("ring" if workers > 2 else "complete", period=5).sized(workers)
    posted, trained, stood = dict[Address, float](), list[Interval](), list[Interval]()
    mailbox = Mailbox(here, log={})
    users = roster("uniform", data.clients["train"].size, workers, workers, seed=0)
    exchange = Along(rank(data, TASKS[model](), algorithm, seed=0), mailbox, owners(workers, here.size), users)
    exchange.advance(0, 2)  # compiles
    train, post, take = Rank.train, mailbox.post, mailbox.take

    def noted(self: Rank, *given: Any) -> Any:
        start = time.monotonic()
        done = train(self, *given)
        trained.append((start, time.monotonic()))
        return done

    def taking(addresses: Iterable[Address]) -> dict[Address, np.ndarray]:
        start = time.monotonic()
        found = take(addresses)
        stood.append((start, time.monotonic()))
        return found

    def sending(model: np.ndarray, to: int, address: Address) -> None:
        posted[address] = time.monotonic()
        post(model, to, address)

    here.notes.Barrier()
    Rank.train, mailbox.post, mailbox.take = noted, sending, taking  # type: ignore[method-assign]
    start = time.perf_counter()
    exchange.advance(2, rounds)
    seconds = time.perf_counter() - start
    Rank.train = train  # type: ignore[method-assign]
    mailbox.close()
    sent = {address: at for one in here.notes.allgather(posted) for address, at in one.items()}
    ways = [(sent[address], at) for address, at in (mailbox.log or {}).items() if address in sent]
    total = sum(end - begin for begin, end in ways)
    mine = total, shared(ways, trained), shared(ways, stood), sum(b - a for a, b in stood), seconds, len(ways)
    way, training, standing, waiting, lasted, many = here.notes.allreduce(np.array(mine)).tolist()
    return {
        "milliseconds_a_model": 1e3 * way / many,
        "share_while_training": training / way,
        "share_not_waited_for": 1 - standing / way,
        "share_of_rounds_waiting": waiting / lasted,
        "milliseconds_a_round": 1e3 * lasted / here.size / rounds,
    }


def shared(ways: list[Interval], spans: list[Interval]) -> float:
    """Seconds that intervals have in common with others."""
    return sum(max(0.0, min(end, b) - max(begin, a)) for begin, end in ways for a, b in spans)


def measured(file: Path, repeat: int, rounds: int) -> None:
    """Both, in a rank; rank 0 writes them down."""
    here = world()
    speed = {name: {"bytes": size, **throughput(here, size, repeat)} for name, size in SIZES.items()}
    ways = {
        f"{model}, {each} worker{'s' * (each > 1)} a rank": hidden(here, model, each, rounds)
        for model in TASKS
        for each in (1, 4)
    }
    if here.rank == 0:
        library = MPI.Get_library_version().splitlines()[0].strip("\0")
        versions = {"fedloom": fl.__version__, "jax": jax.__version__, "mpi4py": mpi4py.__version__, "mpi": library}
        file.write_text(json.dumps({"versions": versions, "throughput": speed, "hidden": ways}))


def main(
    repeat: Annotated[int, typer.Option(help="exchanges in a timing; the median counts")] = 40,
    rounds: Annotated[int, typer.Option(help="rounds of training")] = 40,
    inside: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Start two ranks, measure, and write results/mpi.json."""
    if inside is not None:
        measured(inside, repeat, rounds)
        return
    load = os.getloadavg()[0]  # what else the machine does
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        mpiexec = Path(sys.executable).parent / "mpiexec"
        options = ["--repeat", str(repeat), "--rounds", str(rounds), "--inside", str(file)]
        subprocess.run([str(mpiexec), "-n", "2", sys.executable, __file__, *options], check=True)
        found = json.loads(file.read_text())
    command, date = shlex.join(["python", *sys.argv]), datetime.now(UTC).date().isoformat()
    about = {"command": command, "date": date, "device": cpu(), "load_average_before": round(load, 2)}
    (RESULTS / "mpi.json").write_text(json.dumps({**about, **found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    typer.run(main)
