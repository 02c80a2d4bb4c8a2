"""Fashion-MNIST: 60,000 + 10,000 pictures of clothes (Xiao, Rasul, Vollgraf 2017), in the files of MNIST."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.download import missing
from fedloom.data.idx import read_parts, variant
from fedloom.settings import data_folder

CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


def fashion_mnist(folder: str | Path | None = None) -> Dataset:
    """Fashion-MNIST: 60,000 training and 10,000 test images of 28 × 28 grey pixels, ten kinds of clothes.

    Arguments:
        folder: the data folder; the four idx files are in ``fashion-mnist`` inside it.

    >>> fashion_mnist()  # doctest: +SKIP
    Dataset('fashion-mnist': 60,000 train, 0 validation, 10,000 test examples)
    """
    place = data_folder(folder) / "fashion-mnist"
    if variant(place, "train-images-idx3-ubyte") is None:
        raise missing("fashion-mnist", ["train-images-idx3-ubyte.gz"], [place])
    columns, boundary = read_parts(place, "train", "t10k", classes=len(CLASSES))
    train, test = np.split(np.arange(len(columns["y"])), [boundary])
    return Dataset("fashion-mnist", columns, len(CLASSES), train, test=test, class_names=CLASSES, images=True)
