import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.data.partition import iid
from fedloom.errors import ArgumentError, DataError


@given(n=st.integers(1, 500), clients=st.integers(1, 50), seed=st.integers(0, 99))
def test_everything_is_dealt_once_and_evenly(n: int, clients: int, seed: int) -> None:
    if clients > n:
        return
    deal = iid(clients).deal(np.zeros(n, int), np.random.default_rng(seed))
    rows, sizes = deal.rows, deal.sizes
    assert sorted(rows.tolist()) == list(range(n))
    assert len(sizes) == clients
    assert sizes.sum() == n
    assert sizes.max() - sizes.min() <= 1


def test_more_clients_than_examples() -> None:
    with pytest.raises(DataError, match="4 clients cannot share 3 training examples"):
        iid(4).deal(np.zeros(3, int), np.random.default_rng(0))


def test_no_clients() -> None:
    with pytest.raises(ArgumentError, match="clients must be at least 1, but is 0"):
        iid(0)


@pytest.mark.parametrize("clients", [2.5, "3", True, None])
def test_what_is_no_number_of_clients(clients: object) -> None:
    with pytest.raises(ArgumentError, match="clients must be a whole number"):
        iid(clients)  # type: ignore[arg-type]
