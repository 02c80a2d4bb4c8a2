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
from datetime import UTC, datetime
from pathlib import Path

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=4, help="scheme, split, examples, clients: measure one and print it")
    one = parser.parse_args().one
    if one:
        print(json.dumps(measure(one[0], one[1], int(one[2]), int(one[3]))))
        return
    cases = [(s, "none") for s in SCHEMES] + [("natural", s) for s in SPLITS if s != "none"]
    rows = []
    for n, clients in SIZES:
        for scheme, split in cases:
            command = [sys.executable, __file__, "--one", scheme, split, str(n), str(clients)]
            rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            print(rows[-1], flush=True)
    about = {
        "command": "python benchmarks/partitions.py",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": 0,
        "device": cpu(),
        "versions": {"fedloom": fl.__version__, "numpy": np.__version__},
    }
    file = Path(__file__).resolve().parents[1] / "results" / f"partitions-{slug(cpu())}.json"
    file.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
