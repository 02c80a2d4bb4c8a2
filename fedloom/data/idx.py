"""idx: the file format of MNIST and its relatives, an array of numbers after a short header."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.files import opened
from fedloom.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Int, Shaped

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
SUFFIXES = ("", ".gz", ".xz")


def read_idx(path: Path) -> np.ndarray:
    """The array in an idx file, compressed (.gz, .xz, .bz2) or not.

    The format: two zero bytes, a type byte (8: unsigned bytes), the number of dimensions, each dimension as a
    big-endian 32-bit integer, then the values, big-endian too.
    """
    with opened(path) as file:
        raw = file.read()
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in TYPES:
        raise DataError(f"{path} is not an idx file: its first bytes are {raw[:4].hex() or 'none'}")
    dtype, start = np.dtype(TYPES[raw[2]]), 4 + 4 * raw[3]
    if len(raw) < start:
        raise DataError(f"{path} is truncated: {len(raw):,} bytes, but its header alone has {start:,}")
    shape = tuple(np.frombuffer(raw, ">u4", raw[3], offset=4).tolist())
    need = math.prod(shape) * dtype.itemsize
    if len(raw) - start != need:
        fault = "truncated" if len(raw) - start < need else "too long"
        raise DataError(f"{path} is {fault}: {len(raw) - start:,} bytes of values, {need:,} for the shape {shape}")
    return np.frombuffer(raw, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def variant(folder: Path, stem: str) -> Path | None:
    """The file of that name in a folder, plain, .gz or .xz; ``None`` if there is none."""
    return next((path for suffix in SUFFIXES if (path := folder / (stem + suffix)).exists()), None)


def read_pair(folder: Path, part: str) -> tuple[Shaped[np.ndarray, "n h w"], Int[np.ndarray, " n"]]:
    """The images and labels of one part: ``{part}-images-idx3-ubyte`` and ``{part}-labels-idx1-ubyte``."""
    found = []
    for stem, dimensions in ((f"{part}-images-idx3-ubyte", 3), (f"{part}-labels-idx1-ubyte", 1)):
        path = variant(folder, stem)
        if path is None:
            raise DataError(f"{folder} has no {stem}, {stem}.gz or {stem}.xz")
        values = read_idx(path)
        if values.ndim != dimensions or values.dtype != np.uint8:
            raise DataError(f"{path} must have {dimensions} dimensions of uint8, but has {values.shape} {values.dtype}")
        found.append(values)
    images, labels = found
    if len(images) != len(labels):
        raise DataError(f"{folder} has {len(images):,} images but {len(labels):,} labels in {part}")
    return images, labels


def read_parts(
    folder: Path, train: str, test: str, classes: int, first: int = 0
) -> tuple[dict[str, Shaped[np.ndarray, "n ..."]], int]:
    """The columns ``x`` and ``y`` of two parts one after the other, and how many rows are the first part's.

    Arguments:
        folder: where the files are.
        train, test: what their names begin with.
        classes: how many classes there must be at most.
        first: the label of the first class in the files; in ``y`` it is 0.
    """
    parts = [read_pair(folder, part) for part in (train, test)]
    for part, (_, labels) in zip((train, test), parts, strict=True):
        wrong = np.flatnonzero((labels < first) | (labels >= first + classes))
        if len(wrong):
            raise DataError(
                f"{folder}: label {wrong[0]:,} of {part} must be between {first} and {first + classes - 1}, but is "
                f"{labels[wrong[0]]}"
            )
    if parts[0][0].shape[1:] != parts[1][0].shape[1:]:
        raise DataError(f"{folder}: images of {parts[0][0].shape[1:]} in {train} but {parts[1][0].shape[1:]} in {test}")
    x, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return {"x": x, "y": y.astype(np.int32) - np.int32(first)}, len(parts[0][1])
