"""EMNIST: handwritten letters and digits of NIST's Special Database 19 (Cohen, Afshar, Tapson, van Schaik 2017)."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.download import missing
from fedloom.data.idx import read_parts, variant
from fedloom.errors import choose
from fedloom.settings import data_folder

ORIGIN = "https://www.nist.gov/itl/products-and-services/emnist-dataset (gzip.zip), unpacked in the folder emnist"
MERGED = digits + ascii_uppercase + "abdefghnqrt"  # the other lower-case letters count as their upper case
SPLITS = {
    "byclass": digits + ascii_uppercase + ascii_lowercase,
    "bymerge": MERGED,
    "balanced": MERGED,
    "letters": ascii_uppercase,
    "digits": digits,
    "mnist": digits,
}


def emnist(split: str = "byclass", folder: str | Path | None = None) -> Dataset:
    """EMNIST: handwritten characters of 28 × 28 grey pixels, as upright as those of MNIST.

    Arguments:
        split: which of its six data sets: byclass (62 classes), bymerge and balanced (47: lower-case letters that
            look like their upper case are merged with it), letters (26), digits or mnist (10).
        folder: the data folder; the idx files are in ``emnist`` inside it, or in ``emnist/gzip``.

    >>> emnist("digits")  # doctest: +SKIP
    Dataset('emnist-digits': 240,000 train, 0 validation, 40,000 test examples)
    """
    names = choose("split", split, SPLITS)
    train, test = (f"emnist-{split}-{part}" for part in ("train", "test"))
    places = [data_folder(folder) / place for place in ("emnist", "emnist/gzip")]
    place = next((place for place in places if variant(place, f"{train}-images-idx3-ubyte")), None)
    if place is None:
        raise missing("emnist", [f"{train}-images-idx3-ubyte.gz"], places, ORIGIN)
    columns, boundary = read_parts(place, train, test, classes=len(names), first=int(split == "letters"))
    upright = np.ascontiguousarray(columns["x"].transpose(0, 2, 1))  # in the files rows and columns are swapped
    return Dataset(
        name=f"emnist-{split}",
        columns={"x": upright, "y": columns["y"]},
        classes=len(names),
        train=np.arange(boundary),
        test=np.arange(boundary, len(upright)),
        class_names=tuple(names),
        images=True,
    )
