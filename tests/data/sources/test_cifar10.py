import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from fedloom.data.sources.cifar10 import BATCHES, FOLDERS, cifar10
from fedloom.errors import DataError

PER_BATCH = 2
LABELS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 3, 4]
PIXELS = np.random.default_rng(0).integers(0, 256, (len(LABELS), 3072)).astype(np.uint8)


def binary(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(BATCHES):
        rows = range(PER_BATCH * i, PER_BATCH * (i + 1))
        (folder / f"{name}.bin").write_bytes(b"".join(bytes([LABELS[r]]) + PIXELS[r].tobytes() for r in rows))
    return folder


def pickled(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(BATCHES):
        rows = slice(PER_BATCH * i, PER_BATCH * (i + 1))
        batch = {
            b"batch_label": name.encode(),
            b"labels": LABELS[rows],
            b"data": PIXELS[rows],
            b"filenames": [b"a", b"b"],
        }
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    return folder


def archive(folder: Path, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as file:
        for batch in sorted(folder.iterdir(), reverse=True):
            file.add(batch, f"cifar-10-batches/{batch.name}")
    return path


def check(folder: Path) -> None:
    data = cifar10(folder)
    assert repr(data) == "Dataset('cifar10': 10 train, 0 validation, 2 test examples)"
    x = data.columns["x"]
    assert (x.shape, x.dtype.name, x.flags.c_contiguous) == ((12, 32, 32, 3), "uint8", True)
    assert x[7, 3, 30].tolist() == [PIXELS[7, 1024 * colour + 32 * 3 + 30] for colour in range(3)]
    assert x.sum() == PIXELS.sum()
    assert data.columns["y"].tolist() == LABELS
    assert data.test.tolist() == [10, 11]
    assert data.class_names[3] == "cat"
    assert data.note == "10 + 2 images, not the usual 50,000 + 10,000"


@pytest.mark.parametrize("place", FOLDERS)
def test_binary_batches(tmp_path: Path, place: str) -> None:
    binary(tmp_path / place)
    check(tmp_path)


@pytest.mark.parametrize("place", FOLDERS)
def test_pickled_batches(tmp_path: Path, place: str) -> None:
    pickled(tmp_path / place)
    check(tmp_path)


@pytest.mark.parametrize("place", ["cifar10", "."])
def test_archives(tmp_path: Path, place: str) -> None:
    archive(binary(tmp_path / "one" / "files"), tmp_path / "one" / place / "cifar-10-binary.tar.gz")
    check(tmp_path / "one")
    archive(pickled(tmp_path / "two" / "files"), tmp_path / "two" / place / "cifar-10-python.tar.gz")
    check(tmp_path / "two")


def test_bad_archives(tmp_path: Path) -> None:
    files = binary(tmp_path / "files")
    (files / "data_batch_4.bin").unlink()
    path = archive(files, tmp_path / "cifar-10-binary.tar.gz")
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz has no data_batch_4\.bin"):
        cifar10(tmp_path)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz is truncated or damaged"):
        cifar10(tmp_path)
    path.write_bytes(b"<html>")
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz is truncated or damaged"):
        cifar10(tmp_path)


def test_bad_binary_batches(tmp_path: Path) -> None:
    binary(tmp_path)
    path = tmp_path / "data_batch_2.bin"
    raw = path.read_bytes()
    path.write_bytes(raw[:-1])
    with pytest.raises(DataError, match=r"data_batch_2\.bin must have 3,073 bytes for each image, but has 6,145 bytes"):
        cifar10(tmp_path)
    path.write_bytes(raw[:3073] + b"\x0a" + raw[3074:])
    with pytest.raises(DataError, match=r"data_batch_2\.bin: the label of image 1 must be 0 to 9, but is 10"):
        cifar10(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="but has 0 bytes"):
        cifar10(tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=r"data_batch_2\.bin is missing"):
        cifar10(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({b"data": PIXELS[:2, :-1]}, r"must have data, an array of 3,072 bytes an image, but has \(2, 3071\)"),
        ({b"data": PIXELS[0, :0]}, r"must have data, .* but has \(0,\)"),
        ({b"data": [1]}, "must have data, .* but has list"),
        ({b"data": PIXELS[:3]}, "has 3 images but 2 labels"),
        ({b"labels": [1, 10]}, "the label of image 1 must be 0 to 9, but is 10"),
        ({b"labels": [-1, 1]}, "the label of image 0 must be 0 to 9, but is -1"),
        ({b"labels": None}, "must have labels, a list of whole numbers, but has None"),
        ({b"labels": Path("a")}, "it asks for pathlib"),
    ],
)
def test_bad_pickled_batches(tmp_path: Path, change: dict[bytes, object], message: str) -> None:
    pickled(tmp_path)
    batch = {b"labels": LABELS[:2], b"data": PIXELS[:2], **change}
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(DataError, match=f"data_batch_1:? .*{message}"):
        cifar10(tmp_path)


def test_no_batches(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"no test_batch.bin or .* in {tmp_path}/cifar10, .*`fedloom data get cifar10`"):
        cifar10(tmp_path)


def test_the_real_pictures(data_folder: Path) -> None:
    try:
        data = cifar10(data_folder)
    except DataError as error:
        if "`fedloom data get cifar10`" not in str(error):
            raise
        pytest.skip(f"{data_folder} has no CIFAR-10")
    assert repr(data) == "Dataset('cifar10': 50,000 train, 0 validation, 10,000 test examples)"
    assert data.note == ""
    assert np.bincount(data.columns["y"]).tolist() == [6000] * 10
    mean = data.columns["x"][:50_000].mean(axis=(0, 1, 2)) / 255
    assert mean.round(4).tolist() == [0.4914, 0.4822, 0.4465]  # as published with many models
    assert data.columns["y"][:5].tolist() == [6, 9, 9, 4, 1]
