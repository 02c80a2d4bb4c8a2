"""Hugging Face: a data set of the ``datasets`` library, handed over in Python; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.columns import features, labels, user_ids
from fedloom.data.dataset import Dataset
from fedloom.data.sources.arrays import assembled
from fedloom.data.sources.images import plain
from fedloom.errors import ArgumentError, DataError, UnknownName, require
from fedloom.progress import tracked

if TYPE_CHECKING:
    import datasets
    from PIL import Image

SPLITS = {"train": "train", "validation": "validation", "valid": "validation", "test": "test"}
BATCH = 1000
GREY = ("1", "L", "LA", "La", "I", "I;16", "I;16L", "I;16B", "I;16N")


def hugging_face(
    dataset: datasets.Dataset | datasets.DatasetDict,
    x: str | Sequence[str] | None = None,
    y: str | None = None,
    user: str | None = None,
    *,
    images: bool | None = None,
) -> Dataset:
    """The examples of a ``datasets.Dataset``, or of the train, validation (or valid) and test splits of a DatasetDict.

    Columns of the type Image are images (grey, or in three colours), which models see as 0 to 1; of other columns see
    ``images`` of :func:`fedloom.data.from_arrays`.

    Arguments:
        dataset: what ``datasets`` loaded or made.
        x: the column to learn from, or several columns of numbers; by default the only one with images, or ``x``.
        y: the column of labels; by default the only ClassLabel, or ``label``, or ``y``.
        user: the column that says who made each example; by default nobody knows.
        images: whether arrays of numbers are images.
    """
    splits, note = _splits(dataset)
    kinds = {name: type(kind).__name__ for name, kind in splits["train"].features.items()}
    several = x is not None and not isinstance(x, str)
    wanted = [x] if x is None or isinstance(x, str) else x
    require(len(wanted) > 0, "x", "at least one column", x)
    inputs = [_column("x", name, kinds, "Image", ("x",)) for name in wanted]
    label = _column("y", y, kinds, "ClassLabel", ("label", "y"))
    owner = [_column("user", user, kinds)] if user is not None else []
    _check_columns(splits, [*inputs, label, *owner], label)
    xs = {part: _inputs(split, part, inputs, splits["train"], several) for part, split in splits.items()}
    ys = [labels(_whole(split, part, label), f"{label} of {part}") for part, split in splits.items()]
    users = [
        user_ids(_whole(split, part, name), f"{name} of {part}") for name in owner for part, split in splits.items()
    ]
    name = splits["train"].info.dataset_name or "hugging_face"
    is_images = True if kinds[inputs[0]] == "Image" else images
    return assembled(name, xs, ys, users, _class_names(splits["train"], label), note, is_images)


def _splits(dataset: Any) -> tuple[dict[str, Any], str]:
    """The splits to use, and a note on those that are not."""
    try:
        import datasets
    except ImportError as error:
        raise DataError("data sets of Hugging Face need their library: pip install datasets") from error
    if isinstance(dataset, datasets.Dataset):
        return {"train": dataset}, ""
    if not isinstance(dataset, datasets.DatasetDict):
        raise ArgumentError("dataset", "a datasets.Dataset or datasets.DatasetDict", type(dataset).__name__)
    if "train" not in dataset:
        raise DataError(f"the data set has no split train, only {', '.join(dataset)}: hand over the one to train on")
    names = {SPLITS[name]: name for name in reversed(SPLITS) if name in dataset}
    left = sorted(set(dataset) - set(names.values()))
    note = f"splits left out: {', '.join(left)}" if left else ""
    return {part: dataset[names[part]] for part in ("train", "validation", "test") if part in names}, note


def _column(argument: str, given: str | None, kinds: dict[str, str], kind: str = "", usual: Sequence[str] = ()) -> str:
    """The column of that name, or where there is no name, the only one of its kind or one with a usual name."""
    if given is not None:
        if given not in kinds:
            raise UnknownName(argument, given, kinds)
        return given
    alike = [name for name, its in kinds.items() if its == kind]
    for name in alike if len(alike) == 1 else usual:
        if name in kinds:
            return name
    columns = ", ".join(f"{name} ({its})" for name, its in kinds.items())
    raise DataError(
        f"{argument} must name a column: there are {len(alike)} of the type {kind}, and none is called "
        f"{' or '.join(usual)}; the columns are {columns}"
    )


def _check_columns(splits: Mapping[str, Any], names: Sequence[str], label: str) -> None:
    """Every split has rows and all columns, and numbers its classes as training does."""
    classes = _class_names(splits["train"], label)
    for part, split in splits.items():
        for name in names:
            if name not in split.column_names:
                raise DataError(f"the split {part} has no column {name}, only {', '.join(split.column_names)}")
        if not len(split):
            raise DataError(f"the split {part} has no rows")
        if (its := _class_names(split, label)) != classes:
            raise DataError(f"the classes of {part} must be those of train, {classes}, but are {its}")


def _class_names(split: Any, label: str) -> tuple[str, ...]:
    return tuple(getattr(split.features[label], "names", ()))


def _filled(split: Any, part: str, column: str, train: Any) -> np.ndarray:
    """A column to learn from, in one array, all of its rows of the shape of the first training example."""
    first = features(_whole(train.select(range(1)), "train", column), f"{column} of train")
    whole = np.empty((len(split), *first.shape[1:]), first.dtype)
    start = 0
    for batch in _batches(split, part, column, first.shape[1:]):
        whole[start : start + len(batch)] = features(batch, f"{column} of {part}")
        start += len(batch)
    return whole


def _inputs(split: Any, part: str, names: Sequence[str], train: Any, several: bool) -> np.ndarray:
    """The column to learn from, or several, one a feature."""
    arrays = [_filled(split, part, name, train) for name in names]
    if not several:
        return arrays[0]
    for name, array in zip(names, arrays, strict=True):
        if array.ndim != 1:
            raise DataError(f"of several columns each must hold one number a row, but {name} holds {array.shape[1:]}")
    return np.stack(arrays, axis=-1)


def _whole(split: Any, part: str, column: str) -> np.ndarray:
    return np.concatenate(list(_batches(split, part, column, None)))


def _batches(split: Any, part: str, column: str, shape: tuple[int, ...] | None) -> Iterator[np.ndarray]:
    """A column as arrays of up to a thousand rows, each row of the given shape (where there is one)."""
    kind = split.features[column]
    is_image = type(kind).__name__ == "Image"
    view = split.select_columns([column]).with_format(
        None if is_image else "numpy", **({} if is_image else _type(kind))
    )
    if is_image and not kind.decode:
        view = view.cast_column(column, replace(kind, decode=True))
    for start in tracked(range(0, len(split), BATCH), -(-len(split) // BATCH), f"reading {column} of {part}"):
        try:
            rows = view[start : start + BATCH][column]
        except (OSError, SyntaxError, ValueError) as error:
            last = min(start + BATCH, len(split)) - 1
            raise DataError(f"{column} of {part} cannot be read in rows {start} to {last} ({error})") from error
        yield _uniform(map(_pixels, rows) if is_image else rows, start, f"{column} of {part}", shape)


def _type(kind: Any) -> dict[str, np.dtype]:
    """The type to read numbers with: their own, where the library would make int64 or float32 of them."""
    while hasattr(kind, "feature"):  # of a list, or a list of lists
        kind = kind.feature
    name = str(getattr(kind, "dtype", ""))
    return {"dtype": np.dtype(name)} if name.startswith(("int", "uint", "float", "bool")) else {}


def _pixels(image: Image.Image | None) -> np.ndarray | None:
    if image is None:
        return None
    return np.asarray(plain(image, "L" if image.mode in GREY else "RGB"))


def _uniform(rows: Iterable[Any], start: int, name: str, shape: tuple[int, ...] | None) -> np.ndarray:
    """Rows in one array, after a check that none is missing and all have the shape (or that of the first)."""
    whole = rows if isinstance(rows, np.ndarray) and rows.dtype != object else None
    values = list(rows) if whole is None else whole[:1]  # the library leaves rows apart where one differs
    for row, value in enumerate(values, start):
        if whole is None and (value is None or (np.ndim(value) == 0 and value != value)):
            raise DataError(f"row {row} of {name} is missing: drop or fill it")
        if shape is not None and np.shape(value) != shape:
            raise DataError(f"row {row} of {name} has the shape {np.shape(value)}, but the first row {shape}")
        shape = np.shape(value)
    return np.stack(list(values)) if whole is None else whole
