"""Agreement with an independent implementation: Flower Datasets' partitioners, on the same labels.

Each statistic's mean over 20 partitions must lie within four standard errors of theirs.
"""

import warnings

import numpy as np
import pytest

from fedloom.data.description import entropy, gini
from fedloom.data.partition import Partition, dirichlet, shards

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    datasets = pytest.importorskip("datasets", reason="needs Hugging Face datasets")
    theirs = pytest.importorskip("flwr_datasets.partitioner", reason="needs flwr-datasets")

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # theirs, about pyarrow
SEEDS, CLIENTS = 20, 20
LABELS = np.random.default_rng(0).choice(10, 4000, p=np.arange(1, 11) / 55)


def ours(scheme: Partition, seed: int) -> np.ndarray:
    deal = scheme.deal(LABELS, np.random.default_rng(seed))
    return np.bincount(deal.owner * 10 + LABELS[deal.rows], minlength=CLIENTS * 10).reshape(CLIENTS, 10)


def flower(partitioner: object) -> np.ndarray:
    partitioner.dataset = datasets.Dataset.from_dict({"label": LABELS})  # type: ignore[attr-defined]
    parts = [np.asarray(partitioner.load_partition(k)["label"], int) for k in range(CLIENTS)]  # type: ignore[attr-defined]
    return np.stack([np.bincount(part, minlength=10) for part in parts])


STATISTICS = {
    "label entropy": lambda counts: entropy(counts).mean(),
    "classes a client": lambda counts: (counts > 0).sum(axis=1).mean(),
    "Gini of sizes": lambda counts: gini(counts.sum(axis=1)),
    "largest client": lambda counts: counts.sum(axis=1).max(),
    "share of a client's commonest class": lambda counts: (
        counts.max(axis=1) / np.maximum(counts.sum(axis=1), 1)
    ).mean(),
}


def agree(mine: list[np.ndarray], others: list[np.ndarray]) -> None:
    for name, statistic in STATISTICS.items():
        a, b = (np.array([statistic(counts) for counts in found]) for found in (mine, others))
        error = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / SEEDS)
        assert abs(a.mean() - b.mean()) <= 4 * error + 1e-9, f"{name}: {a.mean():.4f} here, {b.mean():.4f} there"


@pytest.mark.parametrize("alpha", [0.1, *(pytest.param(alpha, marks=pytest.mark.slow) for alpha in (0.5, 5.0))])
def test_dirichlet(alpha: float) -> None:
    def partitioner(seed: int) -> object:
        return theirs.DirichletPartitioner(
            CLIENTS, "label", alpha, min_partition_size=0, self_balancing=False, seed=seed
        )

    agree([ours(dirichlet(CLIENTS, alpha), s) for s in range(SEEDS)], [flower(partitioner(s)) for s in range(SEEDS)])


def test_shards() -> None:
    def partitioner(seed: int) -> object:
        return theirs.ShardPartitioner(CLIENTS, "label", num_shards_per_partition=2, shard_size=100, seed=seed)

    agree([ours(shards(CLIENTS, 2), s) for s in range(SEEDS)], [flower(partitioner(s)) for s in range(SEEDS)])


def test_shards_of_one_class_only_are_told_apart() -> None:
    """The comparison can fail: two shards a client are not three."""
    with pytest.raises(AssertionError, match="label entropy"):
        agree([ours(shards(CLIENTS, 2), s) for s in range(SEEDS)], [ours(shards(CLIENTS, 3), s) for s in range(SEEDS)])
