"""Arrays: examples, labels and users as arrays in a NumPy .npz or an HDF5 file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.data.columns import coded, features, labels, targets, user_ids
from fedloom.data.dataset import Dataset
from fedloom.data.files import find
from fedloom.data.split.split import PARTS
from fedloom.errors import DataError, MissingExtra, require, warn

NONE = np.arange(0)
USERS = ("user", "users")


def npz(
    path: str | Path,
    x: str = "x",
    y: str = "y",
    user: str | None = None,
    folder: str | Path | None = None,
    *,
    images: bool | None = None,
    numbers: bool = False,
) -> Dataset:
    """The examples in a NumPy ``.npz`` file: see :func:`from_arrays` for what it may hold.

    Arguments:
        path: the file, here or in the data folder.
        x, y, user: the names of its arrays.
        folder: the data folder.
        images: whether x is images; see :func:`from_arrays`.
        numbers: whether labels are numbers to be predicted.
    """
    where = find(path, folder)
    with _blaming(where), where.open("rb") as raw:
        file = np.load(raw, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise DataError("it holds a single array: save x and y together, with np.savez")
        return from_arrays(where.stem, file, x, y, user, numbers=numbers, images=images)


def hdf5(
    path: str | Path,
    x: str = "x",
    y: str = "y",
    user: str | None = None,
    folder: str | Path | None = None,
    *,
    images: bool | None = None,
    numbers: bool = False,
) -> Dataset:
    """The examples in an HDF5 file: see :func:`from_arrays` for what it may hold.

    Arguments:
        path: the file, here or in the data folder.
        x, y, user: the paths of its data sets, such as ``train/images``, or with dots, ``train.images``.
        folder: the data folder.
        images: whether x is images; see :func:`from_arrays`.
        numbers: whether labels are numbers to be predicted.
    """
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingExtra("h5py", "hdf5") from error
    where = find(path, folder)
    found: dict[str, Any] = {}

    def collect(name: str, thing: Any) -> None:
        if isinstance(thing, h5py.Dataset):
            found[name] = thing

    def named(name: str) -> str:
        slashed = name.strip("/")
        return slashed if slashed in found else slashed.replace(".", "/")

    with _blaming(where), h5py.File(where, "r") as file:
        file.visititems(collect)
        owner = named(user) if user else None
        return from_arrays(where.stem, found, named(x), named(y), owner, numbers=numbers, images=images)


def from_arrays(
    name: str,
    arrays: Mapping[str, Any],
    x: str = "x",
    y: str = "y",
    user: str | None = None,
    *,
    numbers: bool = False,
    images: bool | None = None,
) -> Dataset:
    """A data set from arrays by name: ``x`` and ``y``, or ``x_train``, ``y_train`` and maybe the same with
    ``_validation`` and ``_test``; where there is also ``user`` or ``users``, who made each example.

    Images become numbers between 0 and 1, whatever type they have. Integers that are no images (tokens, counts) and
    floats are used as they are. With ``images=None``, x is images if its type is uint8 or uint16 and an example has
    the shape of an image: (H, W), (H, W, C) or (C, H, W) with 1, 3 or 4 channels.

    Labels are whole numbers from 0, or texts, which are numbered in sorted order; so are users. With ``numbers`` they
    are numbers to be predicted, one or several a row, or 0 and 1 for each of several labels.

    >>> from_arrays("toy", {"x": np.zeros((3, 2)), "y": np.array(["no", "yes", "no"]), "user": [7, 7, 5]})
    Dataset('toy': 3 train, 0 validation, 0 test examples of 2 users)
    """
    example = '"mine", {"x": x, "y": y}'
    require(isinstance(name, str) and isinstance(arrays, Mapping), "what is given",
            f"a name and arrays by name ({example})", f"{type(name).__name__}, {type(arrays).__name__}")  # fmt: skip
    whole = x in arrays or _join(x, "train") not in arrays
    parts = ("",) if whole else tuple(part for part in PARTS if _join(x, part) in arrays)
    if user is None:
        user = next((key for key in USERS if _join(key, parts[0]) in arrays), None)
    xs, ys, whose = [], [], []
    for part in parts:
        xs.append(_part(arrays, x, part, features))
        ys.append(_part(arrays, y, part, targets if numbers else labels))
        _check_rows(xs, x, ys[-1], y, part)
        if user is not None:
            whose.append(_part(arrays, user, part, user_ids))
            _check_rows(xs, x, whose[-1], user, part)
    named = dict(zip((part or "train" for part in parts), xs, strict=True))
    return assembled(name, named, ys, whose, images=images)


def assembled(
    name: str,
    xs: Mapping[str, np.ndarray],
    ys: Sequence[np.ndarray],
    users: Sequence[np.ndarray] = (),
    class_names: Sequence[str] = (),
    note: str = "",
    images: bool | None = None,
) -> Dataset:
    """A data set of checked parts (``train``, ``validation``, ``test``): the x, labels and users of each."""
    everyone = np.concatenate(ys)
    if everyone.dtype.kind == "U":
        class_names, everyone = coded(everyone, texts_by_number=True)
    ends = np.cumsum([len(part) for part in ys])
    rows = {part: np.arange(end - len(y), end) for part, y, end in zip(xs, ys, ends, strict=True)}
    if not len(rows["train"]):
        raise DataError("there are no training examples: the arrays are empty")
    x = np.concatenate(list(xs.values())) if len(xs) > 1 else xs["train"]
    predicted = everyone.dtype.kind == "f"
    columns = {"x": x, "y": everyone if predicted else everyone.astype(np.int32)}
    user_names, owner = coded(np.concatenate(users)) if users else ((), None)
    classes = 1 if predicted else max(len(class_names), int(everyone.max()) + 1)
    if classes > max(1000, len(everyone)):
        raise DataError(f"labels must count classes from 0, but the largest of {len(everyone):,} is {classes - 1:,}")
    if not predicted and not class_names:
        warn_of_gaps(name, columns["y"], classes)
    return Dataset(
        name, columns, classes, rows["train"], rows.get("validation", NONE), rows.get("test", NONE), users=owner,
        user_names=user_names, class_names=class_names, note=note, images=images,
    )  # fmt: skip


def warn_of_gaps(name: str, labels: np.ndarray, classes: int) -> None:
    """Warn if no example has the class 0, or most classes have no example: labels may not count classes from 0.

    Args:
        name: the data set.
        labels: class numbers; -1 pads sequences.
        classes: how many classes there are.
    """
    counts = np.bincount(labels[labels >= 0].ravel(), minlength=classes)
    empty = int((counts == 0).sum())
    if empty and (not counts[0] or 2 * empty > classes):
        shown = "the class 0" if not counts[0] else f"{empty:,} of them"
        told = f"{name}: a model tells the classes 0 to {classes - 1:,} apart, but no example has {shown}"
        warn(f"{told}. Number classes from 0, without gaps")


def _join(key: str, part: str) -> str:
    return f"{key}_{part}" if part else key


def _part(arrays: Mapping[str, Any], key: str, part: str, check: Callable[[Any, str], np.ndarray]) -> np.ndarray:
    key = _join(key, part)
    if key not in arrays:
        raise DataError(f"there is no array {key}, only {', '.join(sorted(arrays)) or 'none at all'}")
    try:
        values = arrays[key]
    except ValueError as error:
        raise DataError(f"the array {key} cannot be read ({error}): save it as numbers or texts") from error
    return check(values, key)


def _check_rows(xs: Sequence[np.ndarray], x: str, column: np.ndarray, key: str, part: str) -> None:
    if len(xs[-1]) != len(column):
        raise DataError(f"{_join(x, part)} has {len(xs[-1]):,} rows, but {_join(key, part)} has {len(column):,}")
    if xs[-1].shape[1:] != xs[0].shape[1:]:
        raise DataError(
            f"all examples must have one shape, but those of {_join(x, part)} have {xs[-1].shape[1:]} and those of "
            f"{_join(x, PARTS[0])} {xs[0].shape[1:]}"
        )


@contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Inside, every error names the file."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError) as error:
        raise DataError(f"{path} is damaged, or of another format ({error}): fetch it again") from error
