import numpy as np
import pytest

from fedloom.data import mnist
from fedloom.data.partition import shards
from fedloom.errors import ArgumentError, DataError


def test_mcmahan_200_shards_of_300_two_a_client() -> None:
    data = mnist().partition(shards(clients=100, per_client=2), seed=0)
    assert data.clients["train"].size.tolist() == [600] * 100
    assert sorted(data.index.tolist()) == list(range(60_000))
    labels = [data.columns["y"][data.examples("train", k)] for k in range(100)]
    for own in labels:
        halves = own[:300], own[300:]
        assert all(len(set(half.tolist())) <= 2 for half in halves)  # a shard holds one digit, or two at a border
    few = [len(set(own.tolist())) for own in labels]
    assert max(few) <= 4
    assert np.mean(few) < 2.3


def test_the_seed_decides() -> None:
    deals = [mnist().partition(shards(10), seed=s).index for s in (0, 0, 1)]
    assert (deals[0] == deals[1]).all()
    assert (deals[0] != deals[2]).any()


def test_more_shards_than_examples() -> None:
    with pytest.raises(DataError, match="3 clients × 2 shards need at least 6 training examples, but there are 5"):
        shards(3, 2).deal(np.zeros(5, int), np.random.default_rng(0))


def test_no_shards() -> None:
    with pytest.raises(ArgumentError, match="per_client must be at least 1, but is 0"):
        shards(3, 0)
