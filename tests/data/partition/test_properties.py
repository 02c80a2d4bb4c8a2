"""What holds for every partition, whatever the data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.data.partition import (
    Examples,
    Partition,
    affinity,
    dirichlet,
    iid,
    labels,
    lognormal,
    natural,
    noisy,
    power,
    rotated,
    shards,
)
from fedloom.errors import DataError

SCHEMES = {
    "iid": lambda k: iid(k),
    "shards": lambda k: shards(k, 2),
    "dirichlet": lambda k: dirichlet(k, 0.3),
    "dirichlet-balanced": lambda k: dirichlet(k, 0.3, balanced=True),
    "lognormal": lambda k: lognormal(k, 1.5),
    "power": lambda k: power(k, 1.2),
    "labels": lambda k: labels(k, 1),
    "affinity": lambda k: affinity(k, 0.8),
    "natural": lambda k: natural(),  # noqa: ARG005
    "noisy": lambda k: noisy(dirichlet(k, 1.0), 0.1),
    "rotated": lambda k: rotated(iid(k), 90),
}


def examples(n: int, classes: int, users: int, seed: int) -> Examples:
    rng = np.random.default_rng(seed)
    return Examples(rng.integers(0, classes, n), classes, rng.integers(0, users, n), [str(u) for u in range(users)])


@pytest.mark.parametrize("name", SCHEMES)
@settings(max_examples=40, deadline=None)
@given(n=st.integers(24, 400), clients=st.integers(1, 12), classes=st.integers(1, 12), seed=st.integers(0, 999))
def test_every_example_is_dealt_once_and_nobody_goes_without(
    name: str, n: int, clients: int, classes: int, seed: int
) -> None:
    data = examples(n, classes, 7, seed)
    assert data.labels is not None
    scheme: Partition = SCHEMES[name](max(clients, len(np.unique(data.labels))) if name == "labels" else clients)
    deal = scheme.deal(data, np.random.default_rng(seed))
    assert sorted(deal.rows.tolist()) == list(range(n))
    assert deal.sizes.sum() == n
    assert deal.sizes.min() >= 1
    assert deal.note  # it says what it did
    if scheme.clients is not None:
        assert len(deal.sizes) == scheme.clients


@pytest.mark.parametrize("name", SCHEMES)
def test_the_same_key_deals_the_same_and_another_deals_otherwise(name: str) -> None:
    data = examples(300, 5, 7, 0)
    deals = [SCHEMES[name](10).deal(data, np.random.default_rng(seed)) for seed in (3, 3, 4)]
    assert deals[0].rows.tolist() == deals[1].rows.tolist()
    assert deals[0].sizes.tolist() == deals[1].sizes.tolist()
    assert name == "natural" or deals[0].rows.tolist() != deals[2].rows.tolist()


@pytest.mark.parametrize("name", ["shards", "dirichlet", "dirichlet-balanced", "labels", "affinity"])
def test_dealing_by_class_needs_classes(name: str) -> None:
    with pytest.raises(DataError, match="deals by class, but these examples have no single class"):
        SCHEMES[name](3).deal(Examples(None, 5, size=30), np.random.default_rng(0))
