"""Setting of the study of He et al. 2019: methods, data sets, simulated clocks and experiments."""

from __future__ import annotations

from typing import Any

from fedloom.runs.experiment import Experiment

SEEDS = 3
LINKS: dict[str, Any] = {"compute": 0.01, "bandwidth": 12.5e6, "server_bandwidth": 125e6}
CLOCKS: dict[str, dict[str, Any]] = {
    "compute alone": {"compute": 0.01},
    "no delay": LINKS,
    "0.3 s": {**LINKS, "latency": 0.3},
    "1 s": {**LINKS, "latency": 1.0},
    "3 s": {**LINKS, "latency": 3.0},
    "unequal machines": {**LINKS, "compute": "lognormal:0.01:1", "latency": 0.3},
    "unsteady machines": {**LINKS, "compute": "lognormal:0.01:0.5:1", "latency": 0.3},
}
"""Simulated clocks: 10 ms a step, links of 100 Mbit/s, a server link of 1 Gbit/s, and a delay for each message;
machines that are e times slower or faster, for the whole run or from round to round."""
SERVER, RING = "FedAvg-MTL", "ring DPA-SGD-MTL"
METHODS: dict[str, dict[str, Any]] = {
    "FedAvg": {"algorithm": "fedavg", "fraction": 1.0},
    SERVER: {"algorithm": "fedavg-mtl"},
    "ring DPA-SGD": {"algorithm": "dpa-sgd"},
    RING: {"algorithm": "dpa-sgd-mtl"},
}
RIVALS = ((RING, SERVER), (RING, "FedAvg"), ("ring DPA-SGD", "FedAvg"))
"""Pairs of a ring and a server that the page compares."""
TOPOLOGIES = ("ring", "sparse:0.9", "sparse:0.6", "sparse:0.3", "complete")
WORKERS = (4, 8, 16, 32, 64, 128, 256, 512)
RATES: dict[str, list[tuple[float, ...]]] = {"mnist": [(0.05, 0.1, 0.2)], "shakespeare": [(2.15, 4.64, 10.0), (1.0,)]}
"""Data → the grids of learning rates, in the order in which they were tried."""
BEST: dict[tuple[str, str], float] = {("mnist", "FedAvg"): 0.2}
"""Data and method → the chosen rate, where it differs from the data set's."""
BASE = Experiment(
    data="mnist-writers", partition="natural", most=64, least=20, pool="yes", split="stratified", test_share=0.2,
    validation_share=0.1, batch_size=10, lr=0.1, rounds=100, every=5, target=None, evaluate="test",
)  # fmt: skip
SETS: dict[str, tuple[str, dict[str, Any], float]] = {
    "mnist": ("MNIST by writer: 64 workers, 2NN", {}, 0.9),
    "shakespeare": (
        "Shakespeare by role: 16 workers, character LSTM",
        {"data": "shakespeare", "most": 16, "least": 300, "model": "lstm", "rounds": 60, "every": 5, "lr": 2.15},
        0.4,
    ),
}
"""Part → its title, its experiment, and the target accuracy."""
PERIOD = {"mnist": 7, "shakespeare": 30}  # steps between two exchanges
STEPS = {"mnist": (6.8, 9), "shakespeare": (34.5, 51)}
"""Data → the steps of one pass over a worker's training data: the mean over workers and the largest."""
PULL = {"mnist": 455, "shakespeare": 28}
"""Data → how many times larger Q[k, k] is at the server than on the ring before the first round: (K / 3)²."""


def experiment(part: str, method: str, **changes: Any) -> Experiment:
    """Return the experiment of a method on a data set."""
    e = BASE.replace(**{**SETS[part][1], **METHODS[method]})
    e = e.replace(**{"lr": BEST.get((part, method), e.lr), **changes})
    return e.replace(period=PERIOD[part]) if e.along else e


def named(part: str, method: str) -> str:
    """Return the name of the recorded series of a method on a data set."""
    return f"{part}-{method.lower().replace(' ', '-')}"
