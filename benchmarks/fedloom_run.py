"""Time fedloom: whole rounds in one program, on every core or on the GPU; or spread over Ray's actors, one a core."""

from __future__ import annotations

import time

import jax
import numpy as np
from hardware import cores, cpu
from measure import arguments, chosen, tell
from workloads import CLASSES, Workload

import fedloom as fl
from fedloom.engines import Program

TASKS = {"2nn": fl.tasks.two_nn, "cnn": fl.tasks.cnn}
GPU = 20  # times as many rounds on a GPU, where a round takes milliseconds
TIMINGS = 4  # parts that the timed rounds are split into; the clock is read after each


def federated(workload: Workload, seed: int) -> fl.data.FederatedData:
    """The clients as fedloom wants them."""
    drawn = workload.draw(seed)
    numbers = np.arange(len(drawn.y), dtype=np.int32)
    clients = {"train": fl.data.Ranges(drawn.start, drawn.size)}
    return fl.data.FederatedData(workload.name, {"x": drawn.x, "y": drawn.y}, CLASSES, numbers, clients, {})


def build(workload: Workload, seed: int, group: int | None, spread: bool) -> list[Program]:
    """The workload's experiments in programs of so many each; by default of as many as the engine finds best."""
    engine = fl.engines.ray(cores()) if spread else fl.engines.compiled()
    task, data = TASKS[workload.model](), federated(workload, seed)
    algorithm = fl.fedavg(
        fraction=workload.cohort / workload.clients,
        epochs=workload.epochs,
        batch_size=workload.batch_size,
        lr=workload.lr,
    )
    seeds = range(seed, seed + workload.experiments)
    most = group or engine.group(data, task, algorithm)
    groups = [seeds[i : i + most] for i in range(0, len(seeds), most)]
    return [engine.program(data, task, [algorithm] * len(members), members) for members in groups]


def run(programs: list[Program], chunk: int, chunks: int) -> tuple[list[float], list[float], float]:
    """The clock before the first chunk of rounds and after each, each chunk's steps, and computed steps in all."""
    states = [program.init() for program in programs]
    jax.block_until_ready(states)
    stamps, steps, computed = [time.perf_counter()], [], 0.0
    for first in range(0, (1 + chunks) * chunk, chunk):
        done = [p.advance(state, first, chunk) for p, state in zip(programs, states, strict=True)]
        states = [state for state, _ in done]
        jax.block_until_ready(states)
        stamps.append(time.perf_counter())
        steps.append(float(sum(p.steps(p.cohorts(first, chunk)).sum() for p in programs)))
        computed += float(sum(np.sum(did.computed) for _, did in done))
    return stamps, steps, computed


def main() -> None:
    """Time a workload."""
    parser = arguments(__doc__)
    parser.add_argument("--group", type=int, help="experiments in one program [default: as the engine chooses]")
    parser.add_argument("--ray", action="store_true", help="spread clients over Ray's actors")
    options = parser.parse_args()
    workload, rounds = chosen(options)
    programs = build(workload, options.seed, options.group, options.ray)
    rounds *= 1 if jax.default_backend() == "cpu" else GPU
    chunk = max(1, rounds // TIMINGS)
    stamps, steps, computed = run(programs, chunk, -(-rounds // chunk))
    for program in programs:
        program.close()
    mesh = programs[0].plan.mesh
    first = mesh.devices.flat[0]
    tell(
        "fedloom-ray" if options.ray else "fedloom",
        workload,
        stamps,
        steps,
        packages=["fedloom", "jax", "jaxlib", *(["ray"] if options.ray else [])],
        processes=cores() if options.ray else mesh.size,
        device=cpu() if first.platform == "cpu" else first.device_kind,
        warmup=1,
        rounds=chunk,
        experiments=workload.experiments,
        programs=len(programs),
        useful_steps=sum(steps),
        computed_steps=computed,
        useful_over_computed=sum(steps) / computed,
    )


if __name__ == "__main__":
    main()
