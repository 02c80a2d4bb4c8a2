import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from fedloom.data.pickled import read_dict
from fedloom.errors import DataError


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def python_2(rows: int, columns: int, raw: bytes) -> bytes:
    """What Python 2 and its numpy write for {"data": array, "labels": [6, 9]} with protocol 2."""
    return (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87R"
        b"q\x05(K\x01K" + bytes([rows]) + b"K" + bytes([columns]) + b"\x86"
        b"cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        b"T" + len(raw).to_bytes(4, "little") + raw + b"tbU\x06labelsq\x08]q\x09(K\x06K\x09eu."
    )  # fmt: skip


def test_what_python_2_wrote() -> None:
    found = read_dict(python_2(2, 3, bytes([0, 1, 2, 253, 254, 255])), "batch")
    assert found["data"].tolist() == [[0, 1, 2], [253, 254, 255]]
    assert found["data"].dtype == np.uint8
    assert found["labels"] == [6, 9]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_python_3_writes(protocol: int, order: str) -> None:
    data = np.array([[0, 1, 127], [128, 254, 255]], np.uint8, order=order)  # type: ignore[call-overload]
    found = read_dict(pickle.dumps({b"data": data, "names": [b"a\xff", "é", b""], b"n": 3}, protocol), "batch")
    assert found["data"].tolist() == data.tolist()
    assert found["names"] == [b"a\xff", "é", b""]
    assert found["n"] == 3


def test_nothing_is_called(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"batch is not a pickled dictionary .* \(it asks for posix\.mkdir\)"):
        read_dict(pickle.dumps({"data": Evil(tmp_path / "made")}, 2), "batch")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        ({"data": np.zeros(2, np.float32)}, "an array of 'f4' instead of unsigned bytes"),
        ({"data": np.array([None, {}])}, "an array of 'O8' instead of unsigned bytes"),
        ({"data": np.float64(1)}, r"it asks for numpy\._core\.multiarray\.scalar"),
        ({"data": Path("a")}, "it asks for pathlib"),
        ([1, 2], "has no attribute 'items'"),
    ],
)
def test_other_things(thing: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_dict(pickle.dumps(thing, 2), "batch")


def test_damaged_pickles() -> None:
    whole = python_2(1, 3, b"abc")
    for end in range(len(whole) - 1):
        with pytest.raises(DataError, match="batch is not a pickled dictionary"):
            read_dict(whole[:end], "batch")
    with pytest.raises(DataError, match="cannot reshape array of size 2"):
        read_dict(python_2(1, 3, b"ab"), "batch")
