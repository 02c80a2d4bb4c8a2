from pathlib import Path

import pytest

from fedloom.data.sources.fashion_mnist import CLASSES, fashion_mnist
from fedloom.errors import DataError


def write(folder: Path, part: str, labels: list[int]) -> None:
    n = len(labels)
    header = b"\0\0\x08\x03" + n.to_bytes(4, "big") + (28).to_bytes(4, "big") * 2
    pixels = b"".join(bytes([label]) * 784 for label in labels)
    (folder / f"{part}-images-idx3-ubyte").write_bytes(header + pixels)
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + n.to_bytes(4, "big") + bytes(labels))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fashion-mnist").mkdir()
    write(tmp_path / "fashion-mnist", "train", [9, 0, 3])
    write(tmp_path / "fashion-mnist", "t10k", [1, 2])
    return tmp_path


def test_clothes(folder: Path) -> None:
    data = fashion_mnist(folder)
    assert repr(data) == "Dataset('fashion-mnist': 3 train, 0 validation, 2 test examples)"
    assert data.columns["x"].shape == (5, 28, 28)
    assert data.columns["x"][:, 5, 5].tolist() == data.columns["y"].tolist() == [9, 0, 3, 1, 2]
    assert data.test.tolist() == [3, 4]
    assert [data.class_names[y] for y in data.columns["y"][:2]] == ["Ankle boot", "T-shirt/top"]
    assert data.classes == len(CLASSES) == 10


def test_a_label_too_many(folder: Path) -> None:
    write(folder / "fashion-mnist", "t10k", [1, 10])
    with pytest.raises(DataError, match="label 1 of t10k must be between 0 and 9, but is 10"):
        fashion_mnist(folder)


def test_missing_files(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (folder / "fashion-mnist" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="fashion-mnist has no t10k-labels-idx1-ubyte"):
        fashion_mnist(folder)
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(DataError, match=f"in {empty}/fashion-mnist.: `fedloom data get fashion-mnist` fetches it"):
        fashion_mnist(empty)
