"""MNIST: 60,000 + 10,000 handwritten digits (LeCun, Cortes, Burges), shipped inside the package; see NOTICE."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.errors import DataError

FILES = Path(__file__).parents[1] / "files" / "mnist"


def read_idx(path: Path) -> np.ndarray:
    """The array in an idx file, gzipped or not.

    The format: two zero bytes, a type byte (8: unsigned bytes), the number of dimensions, each dimension as a
    big-endian 32-bit integer, then the values.
    """
    if not path.exists():
        raise DataError(f"{path} is missing: reinstall fedloom, or give the folder that holds it")
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read ({error}): fetch it again") from error
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise DataError(f"{path} is not an idx file of unsigned bytes: its first bytes are {raw[:4].hex()}")
    shape = np.frombuffer(raw, ">u4", raw[3], offset=4)
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
    if len(values) != np.prod(shape):
        raise DataError(f"{path} is truncated: {len(values):,} values for the shape {tuple(map(int, shape))}")
    return values.reshape(shape)


@cache
def mnist(folder: Path = FILES) -> Dataset:
    """MNIST: 60,000 training and 10,000 test images of 28 × 28 grey pixels, ten digits.

    >>> mnist()
    Dataset('mnist': 60,000 train, 0 validation, 10,000 test examples)
    """
    parts = [(read_idx(folder / f"{p}-images-idx3-ubyte.gz"), read_idx(folder / f"{p}-labels-idx1-ubyte.gz"))
             for p in ("train", "t10k")]  # fmt: skip
    for images, labels in parts:
        if len(images) != len(labels):
            raise DataError(f"{folder} holds {len(images):,} images but {len(labels):,} labels")
    x, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    boundary = len(parts[0][1])
    columns = {"x": x, "y": y.astype(np.int32)}
    return Dataset("mnist", columns, 10, np.arange(boundary), test=np.arange(boundary, len(y)))
