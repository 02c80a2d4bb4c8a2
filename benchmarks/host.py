"""Time the host between rounds: runs that evaluate after every round, after every hundredth, and not at all.

The times are of real runs (``fl.run``), by the seconds in their histories, without the first hundred rounds. The
evaluation's own time is that of many evaluations dispatched one after the other.
"""

from __future__ import annotations

import statistics
import time
from typing import Annotated, Any

import jax
import numpy as np
import timing
import typer
from fedloom_run import TASKS
from workloads import CLASSES, WORKLOADS, Workload

import fedloom as fl

WARM = 100  # rounds of a run that are not timed
TESTS = 10_000
KINDS: dict[str, dict[str, Any]] = {
    "every_100": {"every": 100, "evaluate": ()},
    "every_1": {"every": 1, "evaluate": ()},
    "every_1_evaluated": {"every": 1, "evaluate": ("train", "test")},
}


def federated(workload: Workload) -> fl.data.FederatedData:
    """The clients' examples, and test examples that belong to no client."""
    drawn, rng = workload.draw(0), np.random.default_rng(1)
    count = len(drawn.y)
    x = np.concatenate([drawn.x, rng.integers(0, 256, (TESTS, *drawn.x.shape[1:]), np.uint8)])
    y = np.concatenate([drawn.y, rng.integers(0, CLASSES, TESTS, np.int32)])
    clients = {"train": fl.data.Ranges(drawn.start, drawn.size)}
    central = {"test": count + np.arange(TESTS)}
    return fl.data.FederatedData(workload.name, {"x": x, "y": y}, CLASSES, np.arange(count, dtype=np.int32), clients,
                                 central)  # fmt: skip


def per_round(run: fl.Run) -> float:
    """Return the seconds that a run took for a round, without its first rounds."""
    rounds, seconds = run.history.column("round"), run.history.column("seconds")
    start = int(np.flatnonzero(rounds == WARM)[0])
    return float((seconds[-1] - seconds[start]) / (rounds[-1] - rounds[start]))


def evaluating(data: fl.data.FederatedData, task: fl.tasks.Task, algorithm: fl.Method, repeat: int) -> float:
    """Return the seconds that the device takes to evaluate a model on all parts of the data."""
    program = fl.engines.compiled().program(data, task, [algorithm], [0])
    state, times = program.init(), []
    for _ in range(1 + repeat):
        start = time.perf_counter()
        jax.block_until_ready(
            [program.evaluation(state, split).arrays for split in ("train", "test") for _ in range(10)]
        )
        times.append((time.perf_counter() - start) / 10)
    return statistics.median(times[1:])


def main(
    name: Annotated[str, typer.Argument(help="workload")] = "2nn",
    rounds: Annotated[int, typer.Option(help="timed rounds of a run; a multiple of 100")] = 200,
    repeat: Annotated[int, typer.Option(help="runs of each kind, in turns; the median counts")] = 9,
    record: Annotated[bool, typer.Option(help="write results/host-<device>.json")] = True,
) -> None:
    """Time the host between rounds."""
    workload = WORKLOADS[name]
    data, task = federated(workload), TASKS[workload.model]()
    algorithm = fl.fedavg(fraction=workload.cohort / workload.clients, batch_size=workload.batch_size, lr=workload.lr)
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(repeat):
        for kind, options in KINDS.items():
            times[kind].append(per_round(fl.run(data, task, algorithm, rounds=WARM + rounds, **options)))
    found = {kind: statistics.median(each) for kind, each in times.items()}
    found["evaluation"] = evaluating(data, task, algorithm, repeat)
    found["every_1_over_every_100"] = found["every_1"] / found["every_100"]
    found["evaluated_over_both"] = found["every_1_evaluated"] / (found["every_100"] + found["evaluation"])
    for kind, value in found.items():
        print(f"{kind:24} {value:.6f}")
    if record:
        timing.keep("host", workload=name, rounds=rounds, seconds_a_round=times, **found)


if __name__ == "__main__":
    typer.run(main)
