import numpy as np
import pytest

from fedloom.data import Dataset, mnist
from fedloom.data.partition import iid
from fedloom.errors import ArgumentError


def test_hold_out_is_random_disjoint_and_seeded() -> None:
    data = mnist().hold_out(10_000, seed=1)
    assert (len(data.train), len(data.validation), len(data.test)) == (50_000, 10_000, 10_000)
    assert not np.intersect1d(data.train, data.validation).size
    assert np.union1d(data.train, data.validation).tolist() == list(range(60_000))
    assert (data.validation == mnist().hold_out(10_000, seed=1).validation).all()
    assert (data.validation != mnist().hold_out(10_000, seed=2).validation).any()


def test_hold_out_of_everything_is_refused() -> None:
    with pytest.raises(ArgumentError, match="validation must be between 0 and 59,999, but is 60000"):
        mnist().hold_out(60_000)


def test_validation_examples_belong_to_no_client() -> None:
    data = mnist().hold_out(10_000).partition(iid(100))
    assert data.clients["train"].size.tolist() == [500] * 100
    assert not np.intersect1d(data.index, data.central["validation"]).size


def test_images_stay_bytes() -> None:
    assert mnist().partition(iid(10)).columns["x"].dtype == np.uint8


def test_repr_counts() -> None:
    assert repr(Dataset("a", {"y": np.zeros(2)}, 1, np.arange(2))) == (
        "Dataset('a': 2 train, 0 validation, 0 test examples)"
    )
