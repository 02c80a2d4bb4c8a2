import gzip
from pathlib import Path

import numpy as np
import pytest

from fedloom.data.sources.mnist import FILES, mnist, read_idx
from fedloom.errors import DataError


def test_the_digits_are_mnist() -> None:
    data = mnist()
    assert data.columns["x"].shape == (70_000, 28, 28)
    assert data.columns["y"][:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(data.columns["y"][:60_000]).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip
    assert round(float(data.columns["x"][:60_000].mean() / 255), 4) == 0.1307


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is missing"):
        mnist(tmp_path)


def test_a_truncated_file(tmp_path: Path) -> None:
    raw = gzip.decompress((FILES / "t10k-labels-idx1-ubyte.gz").read_bytes())
    (tmp_path / "a").write_bytes(raw[:-1])
    with pytest.raises(DataError, match=r"truncated: 9,999 values for the shape \(10000,\)"):
        read_idx(tmp_path / "a")
    (tmp_path / "b.gz").write_bytes((FILES / "t10k-labels-idx1-ubyte.gz").read_bytes()[:-9])
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(tmp_path / "b.gz")


def test_another_format(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"PNG....")
    with pytest.raises(DataError, match="not an idx file"):
        read_idx(tmp_path / "a")
