"""The workloads: how many clients with how much data, and what is trained on them. NumPy alone serves every peer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SIDE, CLASSES = 28, 10


@dataclass(frozen=True)
class Examples:
    """Generated images and labels, each client's together.

    Arguments:
        x: images of bytes, (examples, 28, 28).
        y: labels.
        start: where each client's examples start.
        size: how many each client has.
    """

    x: np.ndarray
    y: np.ndarray
    start: np.ndarray
    size: np.ndarray

    def floats(self) -> np.ndarray:
        """The images as rows of 784 numbers between 0 and 1."""
        rows = self.x.reshape(len(self.x), -1).astype(np.float32)
        rows /= 255
        return rows


@dataclass(frozen=True)
class Workload:
    """Federated averaging of one model over generated clients.

    Arguments:
        model: ``2nn`` or ``cnn``.
        clients: how many there are.
        examples: how many examples the median client has.
        cohort: how many clients take part in a round.
        rounds: how many rounds are timed unless asked otherwise.
        spread: the largest client's examples over the median client's; 1: all have the same.
        experiments: how many experiments, alike but for their seeds, one round stands for.
        epochs: E, passes over a client's examples.
        batch_size: B; a client's last batch may be shorter.
        lr: the clients' learning rate.
    """

    name: str
    model: str
    clients: int
    examples: int
    cohort: int
    rounds: int
    spread: int = 1
    experiments: int = 1
    epochs: int = 1
    batch_size: int = 10
    lr: float = 0.1

    def sizes(self, seed: int) -> np.ndarray:
        """How many examples each client has: the same for all, or log-normal up to exactly ``spread`` × the median."""
        z = np.random.default_rng([seed, 0]).standard_normal(self.clients)
        middle = np.median(z)
        exponent = (z - middle) / (z.max() - middle)
        sizes: np.ndarray = np.maximum(1, np.rint(self.examples * self.spread**exponent)).astype(np.int32)
        return sizes

    def steps(self, sizes: np.ndarray | int) -> int:
        """How many steps of SGD clients of these sizes take together."""
        return int(np.sum(self.epochs * -(-np.asarray(sizes) // self.batch_size)))

    def draw(self, seed: int) -> Examples:
        """Every client's examples: the same ones for the same seed."""
        rng = np.random.default_rng([seed, 1])
        size = self.sizes(seed)
        total = int(size.sum())
        x = rng.integers(0, 256, (total, SIDE, SIDE), np.uint8)
        y = rng.integers(0, CLASSES, total, np.int32)
        return Examples(x, y, (np.cumsum(size) - size).astype(np.int32), size)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("2nn", "2nn", clients=100, examples=600, cohort=10, rounds=20),
        Workload("cnn", "cnn", clients=100, examples=600, cohort=10, rounds=3),
        Workload("2nn-1000", "2nn", clients=1000, examples=60, cohort=100, rounds=16),
        Workload("unbalanced", "2nn", clients=1000, examples=60, cohort=100, rounds=16, spread=50),
        Workload("sweep16", "2nn", clients=100, examples=600, cohort=10, rounds=16, experiments=16),
        Workload("sweep64", "2nn", clients=100, examples=600, cohort=10, rounds=16, experiments=64),
    )
}
