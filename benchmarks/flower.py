"""Time Flower: its simulation with Ray, one single-threaded actor a core."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(Path(__file__).parent)}

import ray
from flower_app import app
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from hardware import cores, cpu
from measure import WARMUP, arguments, chosen, tell
from torch_parts import build
from workloads import Workload


def server(workload: Workload, rounds: int, seed: int, stamps: list[float], steps: list[int]) -> ServerApp:
    """A server app that notes the clock before the first round and after each, and each round's steps."""
    server_app = ServerApp()

    def count(replies: list[RecordDict], _: str) -> MetricRecord:
        metrics = [next(iter(reply.metric_records.values())) for reply in replies]
        steps.append(sum(m["steps"] for m in metrics))
        return MetricRecord({"replies": len(replies)})

    def note(*_: object) -> None:
        stamps.append(time.perf_counter())

    @server_app.main()
    def main(grid: Grid, _: Context) -> None:
        strategy = FedAvg(
            fraction_train=workload.cohort / workload.clients,
            fraction_evaluate=0.0,
            min_available_nodes=workload.clients,
            train_metrics_aggr_fn=count,
        )
        strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(build(workload.model, seed).state_dict()),
            num_rounds=WARMUP + rounds,
            train_config=ConfigRecord({"workload": workload.name, "seed": seed}),
            evaluate_fn=note,
        )

    return server_app


def main() -> None:
    """Time a workload."""
    options = arguments(__doc__).parse_args()
    workload, rounds = chosen(options)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    stamps: list[float] = []
    steps: list[int] = []
    try:
        run_simulation(
            server_app=server(workload, rounds, options.seed, stamps, steps),
            client_app=app,
            num_supernodes=workload.clients,
            backend_config={
                "init_args": {"num_cpus": cores(), "log_to_driver": False, "logging_level": "error"},
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            },
        )
    finally:
        ray.shutdown()
    if len(steps) < WARMUP + rounds:
        raise SystemExit(f"Flower finished {len(steps)} of {WARMUP + rounds} rounds")
    tell("flower", workload, stamps, steps, packages=["flwr", "ray", "torch"], processes=cores(), device=cpu())


if __name__ == "__main__":
    main()
