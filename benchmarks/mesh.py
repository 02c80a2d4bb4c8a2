"""One process, many devices: seconds a round on 1, 2, 4, … devices, the same experiment; the results must agree.

On CPUs each core is a device of its own. MNIST dealt IID; every client in every round; E = 1.
"""

from __future__ import annotations

import statistics
from typing import Annotated

import jax
import numpy as np
import timing
import typer

import fedloom as fl
from fedloom.trees import flatten


def main(
    devices: Annotated[str, typer.Option(help="how many, comma-separated; powers of two by default")] = "",
    clients: Annotated[int, typer.Option(help="how many clients, all in every round")] = 160,
    virtual: Annotated[int, typer.Option(help="show the CPU to JAX as so many devices; 0: its cores")] = 0,
    rounds: Annotated[int, typer.Option(help="rounds in one timing")] = 2,
    batch: Annotated[int, typer.Option(help="examples in a batch")] = 10,
    repeat: Annotated[int, typer.Option(help="timings of each; the median counts")] = 3,
) -> None:
    """Time rounds, compare the models, and record both."""
    if virtual:
        jax.config.update("jax_num_cpu_devices", virtual)
    there = len(fl.engines.devices.devices())
    counts = [int(n) for n in devices.split(",")] if devices else [2**i for i in range(there.bit_length())]
    data = fl.data.mnist().partition(fl.partition.iid(clients))
    how = fl.fedavg(fraction=1.0, epochs=1, batch_size=batch, lr=0.1)
    rows, first = [], None
    for n in counts:
        program = fl.engines.compiled(devices=n).program(data, fl.tasks.two_nn(), [how], [0])
        state, _ = program.advance(program.init(), 0, 1)
        model = flatten(state.variables)
        first = first or model
        apart = max(float(np.abs(model[name] - a).max()) for name, a in first.items())
        _, times = timing.seconds(program, rounds, repeat)
        seconds = statistics.median(times[1:])
        rows.append({"devices": n, "seconds_a_round": times[1:], "largest_difference": apart})
        faster = statistics.median(rows[0]["seconds_a_round"]) / seconds
        print(f"{n:>3} devices  {seconds:.4f} s a round, {faster:.2f} times as fast; apart by {apart:.1e}", flush=True)
    timing.keep("mesh", clients=clients, batch=batch, rows=rows)


if __name__ == "__main__":
    typer.run(main)
