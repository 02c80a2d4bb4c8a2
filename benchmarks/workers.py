"""Many workers without a server in one process: seconds a round, and memory.

MNIST dealt IID; every worker has a 2NN of its own, takes τ steps with batches of ten, and averages with its neighbours.
"""

from __future__ import annotations

import resource
import statistics
import sys
from typing import Annotated

import jax
import timing
import typer

import fedloom as fl

OWN_ON_ALL = "own_on_all_test_accuracy"  # of every worker's own model on everybody's test data


def main(
    workers: Annotated[str, typer.Option(help="how many, comma-separated")] = "16,128,1152",
    topology: Annotated[str, typer.Option(help="who hears whom")] = "ring",
    period: Annotated[int, typer.Option(help="steps between two exchanges")] = 5,
    rounds: Annotated[int, typer.Option(help="rounds in one timing")] = 5,
    repeat: Annotated[int, typer.Option(help="timings of each; the median counts")] = 3,
) -> None:
    """Time rounds, and record them."""
    found = []
    for many in sorted(int(k) for k in workers.split(",")):  # the peak of memory is that of the largest so far
        data = fl.data.mnist().partition(fl.partition.iid(many))
        how = fl.dpa_sgd(topology, period=period, batch_size=10, lr=0.1)
        program = fl.engines.compiled().program(data, fl.tasks.two_nn(), [how], [0])
        state, times = timing.seconds(program, rounds, repeat)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        stats = jax.devices()[0].memory_stats() or {}
        row = {
            "workers": many,
            "seconds_a_round": times[1:],
            "compiling_seconds": times[0] * rounds,
            "models_bytes": many * program.message.up,
            "peak_memory_bytes": peak,
            "peak_device_bytes": stats.get("peak_bytes_in_use"),
            OWN_ON_ALL: float(program.evaluate(state, "test")[OWN_ON_ALL][0]) if many <= 128 else None,
        }
        found.append(row)
        print(f"{many:>6,} workers  {statistics.median(times[1:]):.4f} s a round, {peak / 1e9:.2f} GB", flush=True)
    timing.keep("workers", topology=topology, period=period, rows=found)


if __name__ == "__main__":
    typer.run(main)
