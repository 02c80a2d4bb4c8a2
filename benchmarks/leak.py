"""A thousand rounds on Ray: the memory of this process and of its actors, and seconds a round, as rounds go by."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import timing
import typer

import fedloom as fl


def resident(pid: int) -> int:
    """The bytes of memory that a process has for itself: shared ones, as Ray's store, not counted."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def actors() -> list[int]:
    """The processes of actors."""
    numbers = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
    return [n for n in numbers if _command(n).startswith(b"ray::Actor")]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def main(
    rounds: Annotated[int, typer.Option(help="how many")] = 1000,
    workers: Annotated[int, typer.Option(help="how many actors")] = 2,
    model: Annotated[str, typer.Option(help="2nn or logistic")] = "2nn",
) -> None:
    """Run, and look at memory a few times."""
    data = fl.data.mnist().partition(fl.partition.iid(1000))
    task = {"2nn": fl.tasks.two_nn, "logistic": fl.tasks.logistic}[model]()
    how = fl.fedavg(fraction=0.01, epochs=1, batch_size=10, lr=0.1)
    program = fl.engines.ray(workers, pieces=4).program(data, task, [how], [0])
    state, rows, began = program.init(), [], time.perf_counter()
    step = max(1, rounds // 20)
    for first in range(0, rounds, step):
        state, _ = program.advance(state, first, step)
        own, theirs = resident(os.getpid()), [resident(pid) for pid in actors()]
        now = time.perf_counter()
        rows.append({"round": first + step, "seconds": now - began, "driver_bytes": own, "actors_bytes": theirs})
        told = ", ".join(f"{b / 2**20:.0f}" for b in theirs)
        print(
            f"{first + step:>6,} rounds  {now - began:7.1f} s  driver {own / 2**20:.0f} MiB, actors {told} MiB",
            flush=True,
        )
    program.close()
    timing.keep("leak", model=model, workers=workers, rows=rows)


if __name__ == "__main__":
    typer.run(main)
