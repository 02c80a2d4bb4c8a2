import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

from fedloom.data.sources.mnist import FILES, mnist
from fedloom.errors import DataError


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


def test_plain_files_do_as_well(tmp_path: Path) -> None:
    for path in FILES.iterdir():
        (tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    assert (mnist(tmp_path).columns["x"] == mnist().columns["x"]).all()


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no train-images-idx3-ubyte"):
        mnist(tmp_path)


def test_labels_of_other_images(tmp_path: Path) -> None:
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    shutil.copy(FILES / "t10k-labels-idx1-ubyte.gz", tmp_path / "train-labels-idx1-ubyte.gz")
    with pytest.raises(DataError, match="has 60,000 images but 10,000 labels in train"):
        mnist(tmp_path)
