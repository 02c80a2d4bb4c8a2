"""CIFAR-10: 50,000 + 10,000 small colour pictures of ten kinds of things (Krizhevsky 2009)."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.download import missing
from fedloom.data.files import opened
from fedloom.data.pickled import read_dict
from fedloom.errors import DataError
from fedloom.settings import data_folder

if TYPE_CHECKING:
    from jaxtyping import Int, UInt8

    Batch = tuple[UInt8[np.ndarray, "n 32 32 3"], Int[np.ndarray, " n"]]

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
PIXELS = 3 * 32 * 32
FOLDERS = ("cifar10", "cifar10/cifar-10-batches-bin", "cifar10/cifar-10-batches-py", "cifar-10-batches-bin",
           "cifar-10-batches-py", ".")  # fmt: skip
ARCHIVES = {"cifar-10-binary.tar.gz": ".bin", "cifar-10-python.tar.gz": ""}


def cifar10(folder: str | Path | None = None) -> Dataset:
    """CIFAR-10: 50,000 training and 10,000 test images of 32 × 32 pixels, red, green and blue.

    Arguments:
        folder: the data folder. In it, in ``cifar10``, ``cifar-10-batches-bin`` or ``cifar-10-batches-py``, are the
            six binary or Python batches, or the archive of either.

    >>> cifar10()  # doctest: +SKIP
    Dataset('cifar10': 50,000 train, 0 validation, 10,000 test examples)
    """
    batches = _batches(data_folder(folder))
    x, y = (np.concatenate(column) for column in zip(*batches, strict=True))
    boundary = len(y) - len(batches[-1][1])
    usual = (boundary, len(y)) == (50_000, 60_000)
    return Dataset(
        name="cifar10",
        columns={"x": x, "y": y},
        classes=len(CLASSES),
        train=np.arange(boundary),
        test=np.arange(boundary, len(y)),
        class_names=CLASSES,
        images=True,
        note="" if usual else f"{boundary:,} + {len(y) - boundary:,} images, not the usual 50,000 + 10,000",
    )


def _batches(data: Path) -> list[Batch]:
    """The six batches, from wherever they are first found."""
    places = [data / place for place in FOLDERS]
    for place in places:
        for suffix in (".bin", ""):
            if any((place / (name + suffix)).is_file() for name in BATCHES):
                read = _binary if suffix else _pickled
                return [read(_bytes(place / (name + suffix)), str(place / (name + suffix))) for name in BATCHES]
        for archive, suffix in ARCHIVES.items():
            if (place / archive).is_file():
                return _unpacked(place / archive, suffix)
    raise missing("cifar10", ("test_batch.bin", "test_batch", *ARCHIVES), places)


def _bytes(path: Path) -> bytes:
    with opened(path) as file:
        return file.read()


def _unpacked(path: Path, suffix: str) -> list[Batch]:
    """The six batches in an archive, read in one go and never written anywhere."""
    read, found = (_binary if suffix else _pickled), {}
    try:
        with opened(path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                name = member.name.rsplit("/", 1)[-1]
                if name.removesuffix(suffix) in BATCHES and (body := archive.extractfile(member)):
                    found[name] = read(body.read(), f"{name} in {path}")
    except tarfile.TarError as error:
        raise DataError(f"{path} is truncated or damaged ({error}): fetch it again") from error
    if lacking := [name + suffix for name in BATCHES if name + suffix not in found]:
        raise DataError(f"{path} has no {', '.join(lacking)}")
    return [found[name + suffix] for name in BATCHES]


def _binary(raw: bytes, where: str) -> Batch:
    """A binary batch: for each image its label, then its red, green and blue pixels, a byte each."""
    if not raw or len(raw) % (1 + PIXELS):
        raise DataError(f"{where} must have {1 + PIXELS:,} bytes for each image, but has {len(raw):,} bytes")
    records = np.frombuffer(raw, np.uint8).reshape(-1, 1 + PIXELS)
    return _batch(records[:, 1:], records[:, 0], where)


def _pickled(raw: bytes, where: str) -> Batch:
    """A Python batch: a dictionary with the pixels of each image in a row of ``data``, and ``labels``."""
    batch = read_dict(raw, where)
    pixels, labels = batch.get("data"), batch.get("labels")
    if not isinstance(pixels, np.ndarray) or pixels.shape[1:] != (PIXELS,) or not len(pixels):
        came = pixels.shape if isinstance(pixels, np.ndarray) else type(pixels).__name__
        raise DataError(f"{where} must have data, an array of {PIXELS:,} bytes an image, but has {came}")
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise DataError(f"{where} must have labels, a list of whole numbers, but has {str(labels)[:60]}")
    if len(labels) != len(pixels):
        raise DataError(f"{where} has {len(pixels):,} images but {len(labels):,} labels")
    return _batch(pixels, np.array(labels), where)


def _batch(pixels: UInt8[np.ndarray, "n 3072"], labels: Int[np.ndarray, " n"], where: str) -> Batch:
    wrong = np.flatnonzero((labels < 0) | (labels >= len(CLASSES)))
    if len(wrong):
        raise DataError(f"{where}: the label of image {wrong[0]:,} must be 0 to 9, but is {labels[wrong[0]]}")
    planes = pixels.reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels.astype(np.int32)
