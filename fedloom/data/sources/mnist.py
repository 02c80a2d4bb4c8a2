"""MNIST: 60,000 + 10,000 handwritten digits (LeCun, Cortes, Burges), shipped inside the package; see NOTICE."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.idx import read_parts

FILES = Path(__file__).parents[1] / "files" / "mnist"


@cache
def mnist() -> Dataset:
    """MNIST: 60,000 training and 10,000 test images of 28 × 28 grey pixels, ten digits.

    >>> mnist()
    Dataset('mnist': 60,000 train, 0 validation, 10,000 test examples)
    """
    columns, boundary = read_parts(FILES, "train", "t10k", classes=10)
    for column in columns.values():
        column.setflags(write=False)  # everybody who asks gets these
    test = np.arange(boundary, len(columns["y"]))
    digits = tuple("0123456789")
    return Dataset("mnist", columns, 10, np.arange(boundary), test=test, class_names=digits, images=True)
