"""Tell which share of a core's peak whole training steps reach, from what `users_models.py` and `kernels.py` recorded.

PyTorch's ``FlopCounterMode`` counts the operations of a step: two for each multiplication and addition of a convolution
or matrix product, forward and backward. A core's time of a step is a round's time by the steps that the core took.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import networks_torch
import torch
from networks import networks
from torch.utils.flop_counter import FlopCounterMode

RESULTS = Path(__file__).resolve().parent.parent / "results"
CONVOLUTIONAL = ("LeNet", "ResNet-8, GroupNorm", "ResNet-8, BatchNorm", "ResNet-18, GroupNorm", "depthwise",
                 "1-D convolutions")  # fmt: skip
CORES = 2


def flops(name: str, batch: int) -> int:
    """Return the operations of a training step."""
    network = networks("cpu")[name]
    module, (x, y) = networks_torch.build(network), network.draw(1, batch, 0)
    with FlopCounterMode(display=False) as counter:
        networks_torch.loss(module(torch.from_numpy(x[0])), torch.from_numpy(y[0]).long()).backward()
    return int(counter.get_total_flops())


def shares(rows: list[dict[str, Any]], peak: float) -> dict[str, float]:
    """Return the share of the peak of every row of convolutional networks in PyTorch."""
    found = {}
    for row in rows:
        if row["library"] == "PyTorch" and row["network"] in CONVOLUTIONAL:
            step = statistics.median(row["seconds_a_round"]["fedloom"]) * CORES / row["steps_a_round"]
            found[f"{row['network']}, B = {row['batch']}"] = flops(row["network"], row["batch"]) / step / peak
    return found


def main() -> None:
    """Print the share of every network and batch size."""
    kernels = json.loads((RESULTS / "kernels-amd-epyc-2-cores.json").read_text())
    rows = json.loads((RESULTS / "users-models-amd-epyc-2-cores.json").read_text())["rows"]
    peak = statistics.median(row["peak_flops_a_second"] for row in kernels["rows"])
    print(f"the peak of a core: {peak / 1e9:.0f} GFLOP/s")
    for name, share in shares(rows, peak).items():
        print(f"{name:<30} {share:4.0%}")


if __name__ == "__main__":
    main()
