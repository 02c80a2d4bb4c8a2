import numpy as np
import pytest

from fedloom.data.sources.mnist import mnist


def test_the_digits_are_mnist() -> None:
    data = mnist()
    assert data.columns["x"].shape == (70_000, 28, 28)
    assert data.columns["x"].dtype == np.uint8
    assert data.columns["y"].dtype == np.int32
    assert data.columns["y"][:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(data.columns["y"][:60_000]).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip
    assert round(float(data.columns["x"][:60_000].mean() / 255), 4) == 0.1307
    assert data.train.tolist() == list(range(60_000))
    assert data.test.tolist() == list(range(60_000, 70_000))
    assert data.class_names == tuple("0123456789")


def test_it_is_read_once() -> None:
    assert mnist() is mnist()


def test_nobody_changes_it_for_others() -> None:
    with pytest.raises(ValueError, match="read-only"):
        mnist().columns["y"][0] = 7
