"""Time the loop everybody writes: plain PyTorch, one client after another, in one process or several."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import numpy as np
import torch
from hardware import cpu
from measure import WARMUP, arguments, chosen, tell
from torch import nn
from torch_parts import Tensors, build, tensors, train
from workloads import Workload

Crew = Callable[[np.ndarray], list[torch.Tensor]]


def train_cohort(model: nn.Module, data: Tensors, workload: Workload, cohort: np.ndarray) -> list[torch.Tensor]:
    """Σ n_k·w_k of each parameter, over the clients of a cohort."""
    total = [torch.zeros_like(p) for p in model.parameters()]
    for client in cohort:
        local = copy.deepcopy(model)
        x, y = data.client(client)
        train(local, x, y, workload)
        with torch.no_grad():
            for kept, p in zip(total, local.parameters(), strict=True):
                kept.add_(p, alpha=len(y))
    return total


def work(pipe: Connection, model: nn.Module, data: Tensors, workload: Workload, out: list[torch.Tensor]) -> None:
    """A worker process: trains the clients it is sent and leaves their sum in shared memory, until it is sent none."""
    torch.set_num_threads(1)
    while (cohort := pipe.recv()) is not None:
        for kept, value in zip(out, train_cohort(model, data, workload, cohort), strict=True):
            kept.copy_(value)
        pipe.send(True)


@contextmanager
def crew(model: nn.Module, data: Tensors, workload: Workload, processes: int) -> Iterator[Crew]:
    """A function that trains a cohort: here, or in worker processes that stay, each an equal part of the cohort."""
    if processes == 1:
        yield lambda cohort: train_cohort(model, data, workload, cohort)
        return
    model.share_memory()
    sums = [[torch.zeros_like(p).share_memory_() for p in model.parameters()] for _ in range(processes)]
    context = torch.multiprocessing.get_context("fork")
    pipes = [context.Pipe() for _ in sums]
    workers = [
        context.Process(target=work, args=(there, model, data, workload, out), daemon=True)
        for (_, there), out in zip(pipes, sums, strict=True)
    ]
    for worker in workers:
        worker.start()

    def together(cohort: np.ndarray) -> list[torch.Tensor]:
        for (here, _), part in zip(pipes, np.array_split(cohort, processes), strict=True):
            here.send(part)
        for here, _ in pipes:
            here.recv()
        return [torch.stack(parts).sum(0) for parts in zip(*sums, strict=True)]

    yield together
    for (here, _), worker in zip(pipes, workers, strict=True):
        here.send(None)
        worker.join()


def run(workload: Workload, rounds: int, seed: int, processes: int, device: str) -> tuple[list[float], list[int]]:
    """The clock before the first round and after each, and each round's steps."""
    data, model = tensors(workload, seed, device), build(workload.model, seed).to(device)
    rng = np.random.default_rng([seed, 2])
    stamps, steps = [time.perf_counter()], []
    with crew(model, data, workload, processes) as train_all:
        for _ in range(WARMUP + rounds):
            cohort = rng.choice(workload.clients, workload.cohort, replace=False)
            total, n = train_all(cohort), int(data.size[cohort].sum())
            with torch.no_grad():
                for p, value in zip(model.parameters(), total, strict=True):
                    p.copy_(value / n)
            if device == "cuda":
                torch.cuda.synchronize()
            stamps.append(time.perf_counter())
            steps.append(workload.steps(data.size[cohort]))
    if not all(bool(p.isfinite().all()) for p in model.parameters()):
        raise SystemExit("the model is not finite after training")
    return stamps, steps


def main() -> None:
    """Time a workload."""
    parser = arguments(__doc__)
    parser.add_argument("--processes", type=int, default=1, help="each of one thread [default: 1]")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="[default: cpu]")
    options = parser.parse_args()
    workload, rounds = chosen(options)
    processes = min(options.processes, workload.cohort)
    if options.device == "cuda" and processes > 1:
        parser.error("--processes: one, where the device is a GPU")
    torch.set_num_threads(1)
    stamps, steps = run(workload, rounds, options.seed, processes, options.device)
    name = "loop" if processes == 1 else "loop-parallel"
    where = torch.cuda.get_device_name() if options.device == "cuda" else cpu()
    tell(name, workload, stamps, steps, packages=["torch", "numpy"], processes=processes, device=where)


if __name__ == "__main__":
    main()
