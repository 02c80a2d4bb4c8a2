import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedloom.data.idx import read_idx, read_pair, read_parts, variant
from fedloom.data.sources.mnist import FILES, mnist
from fedloom.errors import DataError


def idx(kind: int, shape: tuple[int, ...], values: bytes) -> bytes:
    return bytes([0, 0, kind, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape) + values


def images(n: int, side: int = 2) -> bytes:
    return idx(8, (n, side, side), bytes(range(n * side * side)))


def labels(*values: int) -> bytes:
    return idx(8, (len(values),), bytes(values))


@pytest.mark.parametrize(
    ("kind", "dtype", "values", "expected"),
    [
        (0x08, np.uint8, b"\x01\xff", [1, 255]),
        (0x09, np.int8, b"\x01\xff", [1, -1]),
        (0x0B, np.int16, b"\x01\x02\xff\xfe", [258, -2]),
        (0x0C, np.int32, b"\x00\x01\x00\x00\xff\xff\xff\xfe", [65536, -2]),
        (0x0D, np.float32, b"\x3f\xc0\x00\x00\xc0\x00\x00\x00", [1.5, -2.0]),
        (0x0E, np.float64, b"\x3f\xf8" + bytes(6) + b"\xc0" + bytes(7), [1.5, -2.0]),
    ],
)
def test_every_type_comes_in_native_order(
    tmp_path: Path, kind: int, dtype: type, values: bytes, expected: list[float]
) -> None:
    (tmp_path / "a").write_bytes(idx(kind, (2,), values))
    array = read_idx(tmp_path / "a")
    assert array.tolist() == expected
    assert array.dtype == dtype
    assert array.dtype.isnative


@pytest.mark.parametrize(("suffix", "press"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)])
def test_compressed(tmp_path: Path, suffix: str, press: Callable[[bytes], bytes]) -> None:
    (tmp_path / f"a{suffix}").write_bytes(press(idx(8, (2, 3), bytes(range(6)))))
    assert read_idx(tmp_path / f"a{suffix}").tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"PNG....", "is not an idx file: its first bytes are 504e472e"),
        (b"", "is not an idx file: its first bytes are none"),
        (b"\0\0\x0a\x01\0\0\0\0", "is not an idx file: its first bytes are 00000a01"),
        (b"\0\0\x08\x02\0\0\0\x01", "is truncated: 8 bytes, but its header alone has 12"),
        (labels(1, 2, 3)[:-1], r"is truncated: 2 bytes of values, 3 for the shape \(3,\)"),
        (labels(1, 2, 3) + b"!", r"is too long: 4 bytes of values, 3 for the shape \(3,\)"),
        (idx(0x0C, (2,), bytes(7)), r"is truncated: 7 bytes of values, 8 for the shape \(2,\)"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, raw: bytes, message: str) -> None:
    (tmp_path / "bad").write_bytes(raw)
    with pytest.raises(DataError, match=f"bad {message}"):
        read_idx(tmp_path / "bad")


def test_a_missing_and_a_half_compressed_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is missing"):
        read_idx(tmp_path / "a.gz")
    (tmp_path / "b.gz").write_bytes((FILES / "t10k-labels-idx1-ubyte.gz").read_bytes()[:-9])
    with pytest.raises(DataError, match=r"b\.gz is truncated or damaged"):
        read_idx(tmp_path / "b.gz")


def test_a_file_may_be_plain_or_compressed(tmp_path: Path) -> None:
    assert variant(tmp_path, "a") is None
    (tmp_path / "a.xz").touch()
    assert variant(tmp_path, "a") == tmp_path / "a.xz"
    (tmp_path / "a").touch()
    assert variant(tmp_path, "a") == tmp_path / "a"


def test_pairs_and_parts(tmp_path: Path) -> None:
    (tmp_path / "one-images-idx3-ubyte").write_bytes(images(2))
    (tmp_path / "one-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels(1, 3)))
    (tmp_path / "two-images-idx3-ubyte.xz").write_bytes(lzma.compress(images(1)))
    (tmp_path / "two-labels-idx1-ubyte").write_bytes(labels(2))
    columns, boundary = read_parts(tmp_path, "one", "two", classes=3, first=1)
    assert columns["x"].tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[0, 1], [2, 3]]]
    assert columns["y"].tolist() == [0, 2, 1]
    assert columns["y"].dtype == np.int32
    assert boundary == 2
    with pytest.raises(DataError, match="label 1 of one must be between 1 and 2, but is 3"):
        read_parts(tmp_path, "one", "two", classes=2, first=1)
    with pytest.raises(DataError, match="label 0 of one must be between 2 and 4, but is 1"):
        read_parts(tmp_path, "one", "two", classes=3, first=2)
    (tmp_path / "two-images-idx3-ubyte.xz").write_bytes(lzma.compress(images(1, side=3)))
    with pytest.raises(DataError, match=r"images of \(2, 2\) in one but \(3, 3\) in two"):
        read_parts(tmp_path, "one", "two", classes=3, first=1)


def test_bad_pairs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no one-images-idx3-ubyte, one-images-idx3-ubyte\.gz or"):
        read_pair(tmp_path, "one")
    (tmp_path / "one-images-idx3-ubyte").write_bytes(images(2))
    (tmp_path / "one-labels-idx1-ubyte").write_bytes(labels(1))
    with pytest.raises(DataError, match="has 2 images but 1 labels in one"):
        read_pair(tmp_path, "one")
    (tmp_path / "one-labels-idx1-ubyte").write_bytes(images(2))
    with pytest.raises(DataError, match=r"must have 1 dimensions of uint8, but has \(2, 2, 2\) uint8"):
        read_pair(tmp_path, "one")


def test_mnists_files_plain_and_mixed_up(tmp_path: Path) -> None:
    for path in FILES.iterdir():
        (tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    columns, boundary = read_parts(tmp_path, "train", "t10k", classes=10)
    assert boundary == 60_000
    assert (columns["x"] == mnist().columns["x"]).all()
    (tmp_path / "train-labels-idx1-ubyte").write_bytes((tmp_path / "t10k-labels-idx1-ubyte").read_bytes())
    with pytest.raises(DataError, match="has 60,000 images but 10,000 labels in train"):
        read_parts(tmp_path, "train", "t10k", classes=10)
