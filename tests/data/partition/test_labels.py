import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.data.partition import labels
from fedloom.errors import ArgumentError


@settings(deadline=None)
@given(clients=st.integers(1, 30), each=st.integers(1, 6), classes=st.integers(1, 10), seed=st.integers(0, 99))
def test_clients_have_their_classes_and_classes_their_clients(clients: int, each: int, classes: int, seed: int) -> None:
    if each > classes or clients * each < classes:
        return
    y = np.repeat(np.arange(classes), 60)
    deal = labels(clients, each).deal(y, np.random.default_rng(seed))
    has = np.bincount(deal.owner * classes + y[deal.rows], minlength=clients * classes).reshape(clients, classes) > 0
    assert (has.sum(axis=1) == each).all()
    assert has.any(axis=0).all()


def test_a_class_is_shared_evenly() -> None:
    y = np.repeat(np.arange(3), 100)
    deal = labels(3, 3).deal(y, np.random.default_rng(0))
    found = np.bincount(deal.owner * 3 + y[deal.rows]).reshape(3, 3)
    assert sorted(np.unique(found).tolist()) == [33, 34]


def test_classes_that_no_example_has_do_not_count() -> None:
    y = np.repeat([2, 9], 10)
    assert labels(2, 2).deal(y, np.random.default_rng(0)).sizes.tolist() == [10, 10]


def test_bad_numbers() -> None:
    y = np.repeat(np.arange(4), 5)
    with pytest.raises(ArgumentError, match="per_client must be at most 4, the number of classes, but is 5"):
        labels(2, 5).deal(y, np.random.default_rng(0))
    with pytest.raises(ArgumentError, match="at least 4, so that every class has a client, but is 3"):
        labels(3, 1).deal(y, np.random.default_rng(0))


def test_a_class_with_fewer_examples_than_clients_is_told_of() -> None:
    deal = labels(10, 2).deal(np.repeat([0, 1], [100, 2]), np.random.default_rng(0))
    assert deal.note == "2 of 2 classes a client, 10 to 11 examples each; 1 class has fewer examples than clients"
