"""How long describing, partitioning and splitting take, for 60,000 examples and for 60,000,000 over a million clients.

Every scheme runs in a process of its own, so that its peak memory is its own. Writes results/partitions-*.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from hardware import cpu, slug

import fedloom as fl
from fedloom.data import Dataset

SCHEMES = {
    "iid": lambda k: fl.partition.iid(k),
    "shards": lambda k: fl.partition.shards(k, 2),
    "dirichlet": lambda k: fl.partition.dirichlet(k, 0.5),
    "dirichlet, balanced": lambda k: fl.partition.dirichlet(k, 0.5, balanced=True),
    "lognormal": lambda k: fl.partition.lognormal(k, 1.0),
    "power": lambda k: fl.partition.power(k, 0.8),
    "labels": lambda k: fl.partition.labels(k, 2),
    "affinity": lambda k: fl.partition.affinity(k, 0.8),
    "natural": lambda k: fl.partition.natural(),  # noqa: ARG005
}
SPLITS = {
    "none": None,
    "stratified": fl.split.stratified(),
    "by label": fl.split.stratified(by_label=True),
    "temporal": fl.split.temporal(),
}
SIZES = ((60_000, 100), (60_000_000, 1_000_000))


def dataset(n: int, clients: int) -> Dataset:
    """Generated labels and users; one byte of input an example, because who has what is all that is timed."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, n, dtype=np.int32)
    users = rng.integers(0, clients, n, dtype=np.int32)
    columns = {"x": np.zeros((n, 1), np.uint8), "y": labels}
    return Dataset("generated", columns, 10, np.arange(n, dtype=np.int32), users=users, user_names=range(clients))


def measure(scheme: str, split: str, n: int, clients: int) -> dict[str, object]:
    data = dataset(n, clients)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    federated = data.partition(SCHEMES[scheme](clients), SPLITS[split])
    dealt = time.perf_counter()
    summary = fl.data.describe(federated).summary()
    described = time.perf_counter()
    assert sum(summary["examples"].values()) == n
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"scheme": scheme, "split": split, "examples": n, "clients": len(federated),
            "partition_seconds": dealt - began, "describe_seconds": described - dealt,
            "data_gb": before / 1e6, "peak_gb": peak / 1e6}  # fmt: skip


def beside_flower(n: int = 60_000, clients: int = 100, repeat: int = 5) -> list[dict[str, object]]:
    """The same labels dealt by Flower Datasets' partitioners and by fedloom, in turn: median seconds to all clients'
    example numbers.
    """
    warnings.simplefilter("ignore")
    import datasets
    from flwr_datasets.partitioner import DirichletPartitioner, ShardPartitioner

    data = dataset(n, clients)
    labels = datasets.Dataset.from_dict({"label": data.columns["y"]})
    theirs = {
        "dirichlet": lambda: DirichletPartitioner(clients, "label", 0.5, min_partition_size=0, self_balancing=False),
        "shards": lambda: ShardPartitioner(clients, "label", num_shards_per_partition=2, shard_size=n // clients // 2),
    }

    def flower(make: Callable[[], Any]) -> None:
        partitioner = make()
        partitioner.dataset = labels
        for client in range(clients):
            partitioner.load_partition(client)

    rows = []
    for scheme, make in theirs.items():
        took: dict[str, list[float]] = {"fedloom": [], "flower": []}
        for _ in range(repeat):
            took["fedloom"].append(timed(lambda scheme=scheme: data.partition(SCHEMES[scheme](clients))))
            took["flower"].append(timed(lambda make=make: flower(make)))
        rows.append({"scheme": scheme, "examples": n, "clients": clients,
                     **{f"{name}_seconds": float(np.median(each)) for name, each in took.items()}})  # fmt: skip
    return rows


def run(*arguments: str) -> Any:
    command = [sys.executable, __file__, *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=4, help="scheme, split, examples, clients: measure one and print it")
    parser.add_argument("--flower", action="store_true", help="time Flower Datasets' partitioners too and print it")
    arguments = parser.parse_args()
    if arguments.flower:
        print(json.dumps(beside_flower()))
        return
    one = arguments.one
    if one:
        print(json.dumps(measure(one[0], one[1], int(one[2]), int(one[3]))))
        return
    cases = [(s, "none") for s in SCHEMES] + [("natural", s) for s in SPLITS if s != "none"]
    rows = []
    for n, clients in SIZES:
        for scheme, split in cases:
            rows.append(run("--one", scheme, split, str(n), str(clients)))
            print(rows[-1], flush=True)
    about = {
        "command": "python benchmarks/partitions.py",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": 0,
        "device": cpu(),
        "versions": {name: version(name) for name in ("fedloom", "numpy", "flwr-datasets")},
    }
    file = Path(__file__).resolve().parents[1] / "results" / f"partitions-{slug(cpu())}.json"
    beside = run("--flower")
    file.write_text(json.dumps({**about, "rows": rows, "beside_flower": beside}, indent=1) + "\n")


if __name__ == "__main__":
    main()
