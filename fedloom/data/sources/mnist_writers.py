"""MNIST by writer: the same digits with the person who wrote each, known since QMNIST (Yadav and Bottou 2019)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.download import missing
from fedloom.data.files import opened
from fedloom.data.idx import read_idx, variant
from fedloom.data.sources.mnist import mnist
from fedloom.errors import DataError
from fedloom.settings import data_folder

if TYPE_CHECKING:
    from jaxtyping import Int

COLUMNS = ["index", "label", "writer", "hsf_series", "nist_digit_id"]
FOLDERS = ("mnist-writers", "qmnist")
FILES = {
    "train": ("mnist-train-writers.csv", "qmnist-train-labels-idx2-int"),
    "test": ("mnist-t10k-writers.csv", "qmnist-test-labels-idx2-int"),
}


def mnist_writers(folder: str | Path | None = None) -> Dataset:
    """MNIST with its writers as users: 539 of the training digits, 297 others of the test digits.

    Arguments:
        folder: the data folder. In it are, in ``mnist-writers`` or ``qmnist``, QMNIST's label files or tables made
            from them (index, label, writer, hsf_series, nist_digit_id); the images are those inside the package.

    >>> mnist_writers()  # doctest: +SKIP
    Dataset('mnist-writers': 60,000 train, 0 validation, 10,000 test examples of 836 users)
    """
    digits = mnist()
    y = digits.columns["y"]
    writers = np.concatenate([
        _writers(_located(part, folder), y[rows]) for part, rows in (("train", digits.train), ("test", digits.test))
    ])  # fmt: skip
    numbers, users = np.unique(writers, return_inverse=True)
    return replace(
        digits,
        name="mnist-writers",
        users=users.astype(np.int32),
        user_names=tuple(map(str, numbers.tolist())),
        note="who wrote the test digits wrote none of the training digits; a writer's digits are in MNIST's order",
    )


def _located(part: str, folder: str | Path | None) -> Path:
    folders = [data_folder(folder) / name for name in FOLDERS]
    for path in (variant(place, stem) for place in folders for stem in FILES[part]):
        if path:
            return path
    raise missing("mnist-writers", [f"{stem}.gz" for stem in FILES[part]], folders)


def _writers(path: Path, labels: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The writer of each digit, from either kind of file, once its labels agree with MNIST's."""
    found, writers = _table(path) if ".csv" in path.suffixes else _qmnist(path, len(labels))
    if len(found) != len(labels):
        raise DataError(f"{path} must have {len(labels):,} rows, but has {len(found):,}")
    wrong = np.flatnonzero(found != labels)
    if len(wrong):
        row = wrong[0]
        raise DataError(f"{path}, row {row:,}: the label is {found[row]}, but in MNIST it is {labels[row]}")
    return writers


def _table(path: Path) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """The labels and the writers in a table."""
    with opened(path, "rt") as file:
        header = file.readline().strip()
        if header.split(",") != COLUMNS:
            raise DataError(f"{path} must have the columns {','.join(COLUMNS)}, but has {header[:80]}")
        lines = file.readlines()
    try:
        values = np.array([line.split(",") for line in lines], np.int64).reshape(-1, len(COLUMNS))
    except (ValueError, OverflowError) as error:
        raise DataError(f"{path} must have {len(COLUMNS)} whole numbers in every row ({error})") from error
    wrong = np.flatnonzero(values[:, 0] != np.arange(len(values)))
    if len(wrong):
        raise DataError(f"{path}, row {wrong[0]:,}: the index is {values[wrong[0], 0]}; the rows must be in its order")
    return values[:, 1], values[:, 2]


def _qmnist(path: Path, digits: int) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """The labels and the writers in QMNIST's own file; its test file goes on after MNIST's 10,000 test digits."""
    values = read_idx(path)
    if values.ndim != 2 or values.shape[1] != 8:
        raise DataError(f"{path} must have 8 columns, but has the shape {values.shape}")
    return values[:digits, 0], values[:digits, 2]
