import gzip
from pathlib import Path

import numpy as np
import pytest

from fedloom.data.partition.natural import natural
from fedloom.data.sources.mnist import mnist
from fedloom.data.sources.mnist_writers import mnist_writers
from fedloom.errors import DataError

HEADER = "index,label,writer,hsf_series,nist_digit_id"
ROWS = {"train": 60_000, "test": 10_000}
TABLES = {"train": "mnist-train-writers.csv", "test": "mnist-t10k-writers.csv"}


def labels(part: str) -> np.ndarray:
    return mnist().columns["y"][mnist().train if part == "train" else mnist().test]


def table(folder: Path, part: str, rows: int | None = None) -> Path:
    """A table in which writer 7 wrote the even digits, and writer 70 of the training and 80 of the test the others."""
    other = {"train": 70, "test": 80}[part]
    lines = [f"{i},{label},{other if i % 2 else 7},4,{i}" for i, label in enumerate(labels(part).tolist())]
    path = folder / "mnist-writers" / TABLES[part]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([HEADER, *lines[:rows]]) + "\n")
    return path


def qmnist(folder: Path, part: str, rows: int) -> None:
    """QMNIST's label file with the writers of :func:`table`; rows beyond MNIST's have the class 9 and the writer 99."""
    other = {"train": 70, "test": 80}[part]
    values = np.full((rows, 8), 99, ">i4")
    values[:, 0] = 9
    values[: ROWS[part], 0] = labels(part)
    values[: ROWS[part], 2] = np.where(np.arange(ROWS[part]) % 2, other, 7)
    raw = b"\0\0\x0c\x02" + rows.to_bytes(4, "big") + (8).to_bytes(4, "big") + values.tobytes()
    folder.mkdir(exist_ok=True)
    (folder / f"qmnist-{part}-labels-idx2-int.gz").write_bytes(gzip.compress(raw, 1))


def check(folder: Path) -> None:
    data = mnist_writers(folder)
    assert data.user_names == ("7", "70", "80")
    assert data.users is not None
    assert data.users[:3].tolist() == [0, 1, 0]
    assert np.bincount(data.users).tolist() == [35_000, 30_000, 5_000]
    assert np.bincount(data.users[data.test]).tolist() == [5_000, 0, 5_000]
    assert data.columns is mnist().columns


def test_tables(tmp_path: Path) -> None:
    table(tmp_path, "train")
    table(tmp_path, "test")
    check(tmp_path)


@pytest.mark.parametrize("name", ["mnist-writers", "qmnist"])
def test_the_files_of_qmnist(tmp_path: Path, name: str) -> None:
    qmnist(tmp_path / name, "train", 60_000)
    qmnist(tmp_path / name, "test", 60_000)
    check(tmp_path)


def test_too_few_rows(tmp_path: Path) -> None:
    table(tmp_path, "train", rows=59_999)
    with pytest.raises(DataError, match=r"mnist-train-writers\.csv must have 60,000 rows, but has 59,999"):
        mnist_writers(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\n2,4,", "\n2,3,", "row 2: the label is 3, but in MNIST it is 4"),
        ("\n2,4,", "\n3,4,", "row 2: the index is 3; the rows must be in its order"),
        ("\n2,4,", "\n2,4,5,", "must have 5 whole numbers in every row"),
        ("\n2,4,", "\n2,four,", "must have 5 whole numbers in every row"),
        ("writer,", "author,", f"must have the columns {HEADER}, but has index,label,author,"),
    ],
)
def test_bad_tables(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = table(tmp_path, "train")
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(DataError, match=rf"mnist-train-writers\.csv,? {message}"):
        mnist_writers(tmp_path)


def test_another_idx_file(tmp_path: Path) -> None:
    (tmp_path / "qmnist").mkdir()
    (tmp_path / "qmnist" / "qmnist-train-labels-idx2-int").write_bytes(b"\0\0\x08\x01\0\0\0\x01\x05")
    with pytest.raises(DataError, match=r"must have 8 columns, but has the shape \(1,\)"):
        mnist_writers(tmp_path)


def test_no_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"qmnist-train-labels-idx2-int\.gz in .*`fedloom data get mnist-writers`"):
        mnist_writers(tmp_path)


def test_the_real_writers(data_folder: Path) -> None:
    if not any((data_folder / name).is_dir() for name in ("mnist-writers", "qmnist")):
        pytest.skip(f"{data_folder} has no mnist-writers")
    data = mnist_writers(data_folder)
    assert data.users is not None
    train, test = np.unique(data.users[data.train]), np.unique(data.users[data.test])
    assert (len(train), len(test), len(np.intersect1d(train, test))) == (539, 297, 0)
    assert [data.user_names[user] for user in data.users[[0, 1, 2, 60_000]]] == ["2154", "0", "2232", "2578"]
    clients = data.partition(natural())
    assert (clients.clients["train"].size.min(), clients.clients["train"].size.max()) == (19, 131)
    assert len(clients.central["test"]) == 10_000
