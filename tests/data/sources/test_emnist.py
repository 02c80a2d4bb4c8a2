import gzip
from pathlib import Path

import numpy as np
import pytest

from fedloom.data.sources.emnist import SPLITS, emnist
from fedloom.errors import ArgumentError, DataError


def write(folder: Path, split: str, labels: dict[str, list[int]]) -> None:
    """Images whose pixel in file row r, column c is 28 r + c, modulo 256."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, values in labels.items():
        n = len(values)
        header = b"\0\0\x08\x03" + n.to_bytes(4, "big") + (28).to_bytes(4, "big") * 2
        pixels = (np.arange(784) % 256).astype(np.uint8).tobytes() * n
        (folder / f"emnist-{split}-{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + pixels))
        text = b"\0\0\x08\x01" + n.to_bytes(4, "big") + bytes(values)
        (folder / f"emnist-{split}-{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(text))


@pytest.mark.parametrize(
    ("split", "classes", "first", "last"),
    [("byclass", 62, "0", "z"), ("bymerge", 47, "0", "t"), ("balanced", 47, "0", "t"), ("letters", 26, "A", "Z"),
     ("digits", 10, "0", "9"), ("mnist", 10, "0", "9")],
)  # fmt: skip
def test_every_split_has_its_classes(tmp_path: Path, split: str, classes: int, first: str, last: str) -> None:
    least = 1 if split == "letters" else 0
    write(tmp_path / "emnist", split, {"train": [least, least + classes - 1], "test": [least + 1]})
    data = emnist(split, tmp_path)
    assert data.classes == len(data.class_names) == len(set(data.class_names)) == classes
    assert data.columns["y"].tolist() == [0, classes - 1, 1]
    assert (data.class_names[0], data.class_names[-1]) == (first, last)
    assert (data.train.tolist(), data.test.tolist()) == ([0, 1], [2])
    write(tmp_path / "emnist", split, {"train": [least + classes], "test": [least]})
    with pytest.raises(DataError, match=f"must be between {least} and {least + classes - 1}, but is {least + classes}"):
        emnist(split, tmp_path)


def test_merged_classes() -> None:
    """The mapping published with EMNIST: 36 to 46 are the lower-case letters unlike their upper case."""
    assert SPLITS["bymerge"][36:] == "abdefghnqrt"
    assert SPLITS["byclass"][10] == "A"
    assert SPLITS["byclass"][36] == "a"


def test_images_are_upright(tmp_path: Path) -> None:
    write(tmp_path / "emnist" / "gzip", "digits", {"train": [3], "test": [4]})
    x = emnist("digits", tmp_path).columns["x"]
    assert x[0, :3, 0].tolist() == [0, 1, 2]
    assert x[1, 0, :3].tolist() == [0, 28, 56]
    assert x.flags.c_contiguous


def test_missing_files_and_splits(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"emnist-byclass-train-images-idx3-ubyte\.gz in .*: get it from https://www\.nist"
    ):
        emnist(folder=tmp_path)
    with pytest.raises(ArgumentError, match=r"split must be one of balanced, byclass, .*, but is 'bytes'"):
        emnist("bytes", tmp_path)
