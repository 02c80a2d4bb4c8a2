import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedloom.data import describe
from fedloom.data.dataset import Dataset
from fedloom.data.partition import iid, shards
from fedloom.data.sources.arrays import from_arrays, hdf5, npz
from fedloom.errors import ArgumentError, DataError, FedloomWarning, MissingExtra

h5py = pytest.importorskip("h5py")


def saved(path: Path, arrays: dict[str, Any]) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **arrays)
        return path
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            text = np.asarray(array).dtype.kind == "U"
            file.create_dataset(name, data=np.asarray(array, object) if text else array)
    return path


def read(path: Path, **names: Any) -> Dataset:
    return (npz if path.suffix == ".npz" else hdf5)(path, **names)


@pytest.fixture(params=["toy.npz", "toy.h5"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / request.param


def test_x_and_y(path: Path) -> None:
    x = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    data = read(saved(path, {"x": x, "y": np.array([2, 0, 2])}))
    assert (data.name, data.classes, data.users, tuple(data.class_names)) == ("toy", 3, None, ())
    assert data.columns["x"].dtype == np.uint8
    assert data.columns["x"].tolist() == x.tolist()
    assert (data.columns["y"].tolist(), data.columns["y"].dtype) == ([2, 0, 2], np.int32)
    assert (data.train.tolist(), len(data.validation), len(data.test)) == ([0, 1, 2], 0, 0)


KINDS = {
    np.float64: np.float32, np.float32: np.float32, np.float16: np.float32, np.int64: np.int32, np.int8: np.int8,
    np.uint8: np.int16, np.uint16: np.int32, np.uint64: np.int32, np.bool_: np.int8,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_floats_stay_floats_and_integers_integers(path: Path, kind: type) -> None:
    x = read(saved(path, {"x": np.array([[1, 0], [0, 1]], kind), "y": [0, 1]}), images=False).columns["x"]
    assert (x.dtype, x.tolist()) == (KINDS[kind], [[1, 0], [0, 1]])


def test_declared_images_are_pixels_whatever_their_type(path: Path) -> None:
    for kind in (np.uint8, np.int64, np.float64):
        data = read(saved(path, {"x": np.array([[[0, 51], [204, 255]]], kind), "y": [0]}), images=True)
        assert (data.images, data.columns["x"].dtype, data.columns["x"].tolist()) == (
            True, np.uint8, [[[0, 51], [204, 255]]]
        )  # fmt: skip


def test_keras_style_parts(path: Path) -> None:
    arrays = {"x_train": [[1.0], [2.0]], "y_train": [[0], [1]], "x_test": [[3.0]], "y_test": [[4]]}
    data = read(saved(path, arrays))
    assert data.columns["x"].tolist() == [[1], [2], [3]]
    assert (data.columns["y"].tolist(), data.classes) == ([0, 1, 4], 5)
    assert (data.train.tolist(), data.validation.tolist(), data.test.tolist()) == ([0, 1], [], [2])
    more = arrays | {"x_validation": [[5.0]], "y_validation": [[1]], "users_train": [7, 8], "users_validation": [8]}
    data = read(saved(path, more | {"users_test": [9]}))
    assert data.columns["x"].tolist() == [[1], [2], [5], [3]]
    assert (data.train.tolist(), data.validation.tolist(), data.test.tolist()) == ([0, 1], [2], [3])
    assert data.users is not None
    assert (data.users.tolist(), data.user_names) == ([0, 1, 1, 2], ("7", "8", "9"))
    with pytest.raises(DataError, match=r"toy\.(npz|h5): there is no array users_test, only users_train, "):
        read(saved(path, more))


def test_other_names(path: Path) -> None:
    arrays = {"a": [1.0, 2.0], "b": [1, 0], "who": [5, 3], "user": [1, 1]}
    data = read(saved(path, arrays), x="a", y="b", user="who")
    assert (data.columns["x"].tolist(), data.columns["y"].tolist()) == ([1, 2], [1, 0])
    assert data.users is not None
    assert (data.users.tolist(), data.user_names) == ([1, 0], ("3", "5"))
    for names, message in (
        ({}, "there is no array x, only a, b, user, who"),
        ({"x": "a"}, "there is no array y, only a, b, user, who"),
        ({"x": "a", "y": "b", "user": "c"}, "there is no array c, only a, b, user, who"),
    ):
        with pytest.raises(DataError, match=message):
            read(path, **names)


def test_texts_as_labels(path: Path) -> None:
    data = read(saved(path, {"x": [1.0, 2.0, 3.0], "y": np.array(["wolf", "bär", "wolf"])}))
    assert (data.columns["y"].tolist(), data.class_names, data.classes) == ([1, 0, 1], ("bär", "wolf"), 2)
    data = read(saved(path, {"x": [1.0, 2.0], "y": np.array([b"b", b"a"])}))
    assert (data.columns["y"].tolist(), data.class_names) == ([1, 0], ("a", "b"))


def test_texts_of_two_parts_are_numbered_together() -> None:
    data = from_arrays("toy", {"x_train": [1.0, 2.0], "y_train": ["b", "c"], "x_test": [1.0], "y_test": ["aaa"]})
    assert (data.columns["y"].tolist(), data.class_names) == ([1, 2, 0], ("aaa", "b", "c"))


@pytest.mark.parametrize(
    ("users", "codes", "names"),
    [
        ([10, 9, 10], [1, 0, 1], ("9", "10")),  # sorted as numbers
        (np.array(["10", "9", "10"]), [0, 1, 0], ("10", "9")),  # sorted as texts
        ([10.0, 9.0, 10.0], [1, 0, 1], ("9", "10")),
        ([[0.5], [0.25], [0.5]], [1, 0, 1], ("0.25", "0.5")),
        (np.array([b"z", b"a", b"z"]), [1, 0, 1], ("a", "z")),
    ],
)
def test_users_of_any_type(path: Path, users: Any, codes: list[int], names: tuple[str, ...]) -> None:
    data = read(saved(path, {"x": np.zeros(3), "y": [0, 1, 0], "user": users}))
    assert data.users is not None
    assert (data.users.tolist(), data.user_names) == (codes, names)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(3), "y": [0, 1]}, r"toy\.\w+: x has 3 rows, but y has 2"),
        ({"x": np.zeros(2), "y": [0, 1], "user": [1]}, "x has 2 rows, but user has 1"),
        (
            {"x": np.zeros(2), "y": np.eye(2)},
            r"y must have one value .* shape \(2, 2\): of one-hot rows, give the argmax",
        ),
        ({"x": np.zeros(2), "y": [0, 1.5]}, r"y must hold class numbers, whole and from 0, but row 1 is 1\.5"),
        ({"x": np.zeros(2), "y": [0, np.nan]}, "but row 1 is nan"),
        ({"x": np.zeros(2), "y": [0, -1]}, "but row 1 is -1"),
        ({"x": np.zeros(2), "y": [0, 2**31]}, "but row 1 is 2147483648"),
        ({"x": np.zeros(2), "y": 1}, "y must have a row for every example, but is a single value"),
        ({"x": np.array(["a", "b"]), "y": [0, 1]}, "x must hold numbers, all rows of one shape, but is of type"),
        ({"x": np.zeros(2), "y": [1j, 1]}, "y must hold whole numbers or texts, but is of type complex128"),
        (
            {"x": np.zeros(2), "y": [0, 1], "users": [1, np.nan]},
            "users must name a user in every row, but row 1 is nan",
        ),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0, int)}, "there are no training examples"),
        (
            {"x_train": np.zeros((2, 3)), "y_train": [0, 1], "x_test": np.zeros((1, 4)), "y_test": [0]},
            r"those of x_test have \(4,\) and those of x_train \(3,\)",
        ),
        ({"x_train": np.zeros(2), "y_train": [0, 1], "x_test": np.zeros(1)}, "no array y_test, only x_test, x_train, "),
    ],
)
def test_what_cannot_be_used(path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(saved(path, arrays))


def test_arrays_without_names() -> None:
    with pytest.raises(ArgumentError, match=r"a name and arrays by name .*, but is 'ndarray, ndarray'"):
        from_arrays(np.zeros((2, 3)), np.zeros(2))  # type: ignore[arg-type]


def test_python_objects_are_not_unpickled(tmp_path: Path) -> None:
    path = saved(tmp_path / "toy.npz", {"x": np.array([{}, {}]), "y": [0, 1]})
    with pytest.raises(DataError, match=r"toy\.npz: the array x cannot be read \(Object arrays .*: save it as numbers"):
        npz(path)


def test_rows_of_different_lengths(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "toy.h5", "w") as file:
        file.create_dataset("x", (2,), h5py.vlen_dtype(np.int32))[:] = [np.arange(2), np.arange(3)]
        file["y"] = [0, 1]
    with pytest.raises(DataError, match=r"x must hold numbers, all rows of one shape"):
        hdf5(tmp_path / "toy.h5")


def test_a_damaged_file(path: Path) -> None:
    saved(path, {"x": np.random.default_rng(0).normal(size=(100, 10)), "y": np.zeros(100, int)})
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"toy\.\w+ is damaged"):
        read(path)
    path.write_bytes(b"hello")
    with pytest.raises(DataError, match=r"toy\.\w+ is damaged, or of another format"):
        read(path)


def test_a_flipped_byte_in_an_npz(tmp_path: Path) -> None:
    path = saved(tmp_path / "toy.npz", {"x": np.full(50, 0x55, np.uint8), "y": np.zeros(50, int)})
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"\x55" * 50)] = 0
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"toy\.npz is damaged.*CRC"):
        npz(path)


def test_a_single_array_is_no_npz(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"x\.npy: it holds a single array"):
        npz(tmp_path / "x.npy")


def test_a_missing_file_and_the_data_folder(path: Path) -> None:
    with pytest.raises(DataError, match="is neither here nor in the data folder"):
        read(path)
    saved(path, {"x": [1.0], "y": [0]})
    assert len((npz if path.suffix == ".npz" else hdf5)(path.name, folder=path.parent).train) == 1


@pytest.mark.parametrize(("x", "y"), [("train/images", "train/labels"), ("/train/images", "train.labels")])
def test_groups_in_hdf5(tmp_path: Path, x: str, y: str) -> None:
    path = saved(tmp_path / "toy.h5", {"train/images": [[1], [2]], "train/labels": [0, 1], "train/who": [4, 4]})
    data = hdf5(path, x=x, y=y, user="train/who")
    assert (data.columns["x"].tolist(), data.columns["y"].tolist(), data.user_names) == ([[1], [2]], [0, 1], ("4",))
    with pytest.raises(DataError, match="there is no array train, only train/images, train/labels, train/who"):
        hdf5(path, x="train")


def test_without_h5py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtra, match=r"this needs h5py: pip install 'fedloom\[hdf5\]'"):
        hdf5(tmp_path / "toy.h5")


def test_numbers_to_be_predicted_stay_numbers() -> None:
    y = np.array([[0.5, 2.0], [1.5, -3.0]])
    data = from_arrays("toy", {"x": np.zeros((2, 3)), "y": y}, numbers=True)
    assert data.classes == 1
    assert data.columns["y"].dtype == np.float32
    np.testing.assert_array_equal(data.columns["y"], y)
    dealt = data.partition(iid(2))
    assert describe(dealt).counts is None
    with pytest.raises(DataError, match="deals by class, but these examples have no single class each"):
        data.partition(shards(2, 1))


@pytest.mark.parametrize(
    ("y", "told"),
    [
        (["a", "b"], "y must hold numbers, all rows of one shape, but is of type"),
        ([0, np.nan], "finite .* row 1 is nan"),
    ],
)
def test_numbers_that_are_none_are_refused(y: list[object], told: str) -> None:
    with pytest.raises(DataError, match=told):
        from_arrays("toy", {"x": np.zeros((2, 3)), "y": y}, numbers=True)


def test_labels_and_users_that_are_texts_have_one_spelling() -> None:
    y, users = np.array(["1.0", "1 ", "2"]), np.array(["caf\u00e9", "cafe\u0301", "bar"])
    data = from_arrays("toy", {"x": np.zeros((3, 2)), "y": y, "user": users})
    assert (data.class_names, data.columns["y"].tolist()) == (("1", "2"), [0, 0, 1])
    assert data.user_names == ("bar", "caf\u00e9")
    for missing in ("", "NA", "nan", "null"):
        with pytest.raises(DataError, match=r"y must hold a text in every row, but row 1 is .*, as are 2 in all"):
            from_arrays("toy", {"x": np.zeros((3, 2)), "y": np.array(["a", missing, missing])})
    with pytest.warns(FedloomWarning, match="y has texts that differ in capitals only, 'Yes' and 'yes': they stay"):
        letters = from_arrays("toy", {"x": np.zeros((3, 2)), "y": np.array(["Yes", "yes", "no"])})
    assert letters.classes == 3


def test_classes_that_do_not_count_from_0() -> None:
    with pytest.warns(FedloomWarning, match="tells the classes 0 to 2 apart, but no example has the class 0"):
        assert from_arrays("toy", {"x": np.zeros((3, 2)), "y": np.array([1, 2, 1])}).classes == 3
    with pytest.warns(FedloomWarning, match="no example has 8 of them"):
        assert from_arrays("toy", {"x": np.zeros((3, 2)), "y": np.array([0, 9, 0])}).classes == 10
    assert from_arrays("toy", {"x": np.zeros((3, 2)), "y": np.array([True, False, True])}).classes == 2


def test_decimal_labels_are_refused_or_predicted(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), y=np.array([0.5, 1.5, 2.5]))
    with pytest.raises(DataError, match=r"row 0 is 0.5: number classes from 0, or predict numbers \(--task regression"):
        npz(tmp_path / "a.npz")
    assert npz(tmp_path / "a.npz", numbers=True).columns["y"].tolist() == [0.5, 1.5, 2.5]
