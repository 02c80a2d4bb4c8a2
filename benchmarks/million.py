"""A million clients on one machine: logistic regression on ten generated examples each, a thousand clients a round."""

from __future__ import annotations

import json
import mmap
import resource
import shlex
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Optional

import jax
import numpy as np
import typer
from hardware import cpu, slug
from rich.console import Console
from rich.table import Table

import fedloom as fl
from fedloom.engines import Program

FEATURES, CLASSES, EXAMPLES, TEST, BLOCK = 32, 10, 10, 10_000, 2**17
RESULTS = Path(__file__).resolve().parent.parent / "results"


@dataclass(frozen=True)
class Measured:
    """What was measured."""

    rounds: int
    rounds_a_second: float
    first_chunk_seconds: float
    test_accuracy_before: float
    test_accuracy_after: float
    peak_memory_bytes: int
    peak_device_bytes: int | None
    data_bytes: int
    ranges_bytes: int


def rows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Examples of standard normal features, and what a fixed random linear teacher calls them.

    They start at a page of memory, so that fedloom reads them where they are.
    """
    rng = np.random.default_rng(seed)
    teacher = rng.standard_normal((FEATURES, CLASSES), np.float32)
    x: np.ndarray = np.ndarray((count, FEATURES), np.float32, buffer=mmap.mmap(-1, count * FEATURES * 4))
    y = np.empty(count, np.int32)
    for start in range(0, count, BLOCK):
        block = x[start : start + BLOCK]
        rng.standard_normal(out=block, dtype=np.float32)
        y[start : start + BLOCK] = (block @ teacher).argmax(axis=1)
    return x, y


def federated(clients: int, seed: int) -> fl.data.FederatedData:
    """Ten examples a client, one client after another, and a central test set of further examples."""
    x, y = rows(clients * EXAMPLES + TEST, seed)
    index = np.arange(clients * EXAMPLES, dtype=np.int32)
    train = fl.data.Ranges(index[::EXAMPLES].copy(), np.full(clients, EXAMPLES, np.int32))
    test = np.arange(len(index), len(y), dtype=np.int32)
    return fl.data.FederatedData("million", {"x": x, "y": y}, CLASSES, index, {"train": train}, {"test": test})


def measure(program: Program, rounds: int, chunk: int) -> Measured:
    """Train and time: a first chunk of rounds that also compiles, then the timed ones."""
    state = program.init()
    before = program.evaluate(state, "test")["test_accuracy"][0]
    started = time.perf_counter()
    state, _ = program.advance(state, 0, chunk)
    jax.block_until_ready(state)
    compiled = time.perf_counter()
    for first in range(chunk, chunk + rounds, chunk):
        state, _ = program.advance(state, first, chunk)
    jax.block_until_ready(state)
    seconds = time.perf_counter() - compiled
    after, data = program.evaluate(state, "test")["test_accuracy"][0], program.data
    ranges = data.clients["train"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    device = program.plan.mesh.devices.flat[0].memory_stats() or {}
    return Measured(
        rounds=rounds,
        rounds_a_second=rounds / seconds,
        first_chunk_seconds=compiled - started,
        test_accuracy_before=float(before),
        test_accuracy_after=float(after),
        peak_memory_bytes=peak * (1 if sys.platform == "darwin" else 1024),  # macOS counts bytes, Linux kilobytes
        peak_device_bytes=device.get("peak_bytes_in_use"),
        data_bytes=sum(column.nbytes for column in data.columns.values()),
        ranges_bytes=data.index.nbytes + ranges.start.nbytes + ranges.size.nbytes,
    )


def show(measured: Measured, device: str, clients: int) -> None:
    """Print what was measured as a table."""
    table = Table(title=f"{clients:,} clients on {device}", show_header=False, title_justify="left")
    for name, value in asdict(measured).items():
        if value is not None:
            words = name.removesuffix("_bytes").replace("_", " ")
            shown = f"{value / 1e9:.3f} GB" if name.endswith("_bytes") else f"{value:,.4g}"
            table.add_row(words, shown)
    Console().print(table)


def main(
    clients: Annotated[int, typer.Option(help="how many clients, of ten examples each")] = 1_000_000,
    cohort: Annotated[int, typer.Option(help="how many of them take part in a round")] = 1_000,
    rounds: Annotated[int, typer.Option(help="timed rounds, a multiple of the chunk")] = 100,
    chunk: Annotated[int, typer.Option(help="rounds in one call of the program")] = 10,
    lr: Annotated[float, typer.Option(help="the clients' learning rate")] = 0.1,
    seed: Annotated[int, typer.Option(help="of the data, the model and the cohorts")] = 0,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="[dim]\\[default: results/million-<device>.json][/dim]", show_default=False),
    ] = None,
) -> None:
    """A million clients: rounds a second, peak memory, and test accuracy before and after."""
    if rounds % chunk or not 1 <= cohort <= clients:
        raise typer.BadParameter("rounds must be a multiple of chunk, and cohort between 1 and clients")
    engine = fl.engines.compiled()
    algorithm = fl.fedavg(fraction=cohort / clients, epochs=1, batch_size=10, lr=lr)
    task = fl.tasks.logistic(inputs=FEATURES, classes=CLASSES)
    program = engine.program(federated(clients, seed), task, [algorithm], [seed])
    measured = measure(program, rounds, chunk)
    first = program.plan.mesh.devices.flat[0]
    device = cpu() if first.platform == "cpu" else first.device_kind
    show(measured, device, clients)
    record: dict[str, Any] = {
        "command": shlex.join(["python", "benchmarks/million.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "device": device,
        "versions": {"fedloom": fl.__version__, "jax": jax.__version__, "numpy": np.__version__},
        "clients": clients,
        "examples_a_client": EXAMPLES,
        "cohort": cohort,
        "lr": lr,
        **asdict(measured),
    }
    file = output or RESULTS / f"million-{slug(device)}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, indent=1) + "\n")
    print(file)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    app.command()(main)
    app()
