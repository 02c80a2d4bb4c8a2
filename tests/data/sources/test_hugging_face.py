from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedloom.data.sources import hugging_face as source
from fedloom.data.sources.hugging_face import hugging_face
from fedloom.errors import ArgumentError, DataError, UnknownName

datasets = pytest.importorskip("datasets")

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def picture(colour: Any, size: tuple[int, int] = (3, 2), mode: str = "RGB") -> Image.Image:
    return Image.new(mode, size, colour)


def pictures(images: list[Image.Image | None], labels: list[int], **more: list[Any]) -> Any:
    kinds = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    made = datasets.Dataset.from_dict({"image": images, "label": labels, **more})
    return made.cast(datasets.Features({**made.features, **kinds}))


def numbers(**columns: Any) -> Any:
    return datasets.Dataset.from_dict({name: list(values) for name, values in columns.items()})


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BATCH", 2)


def test_images_and_classes_are_found_by_type() -> None:
    data = hugging_face(
        pictures([picture(RED), picture(GREEN), picture(BLUE)], [1, 0, 1], who=["b", "a", "b"]), user="who"
    )
    assert (data.name, data.classes, data.class_names) == ("hugging_face", 2, ("cat", "dog"))
    assert (data.columns["x"].shape, data.columns["x"].dtype) == ((3, 2, 3, 3), np.uint8)
    assert data.columns["x"][:, 0, 0].tolist() == [list(RED), list(GREEN), list(BLUE)]
    assert (data.columns["y"].tolist(), data.columns["y"].dtype) == ([1, 0, 1], np.int32)
    assert data.users is not None
    assert (data.users.tolist(), data.user_names) == ([1, 0, 1], ("a", "b"))
    assert (data.train.tolist(), len(data.validation), len(data.test)) == ([0, 1, 2], 0, 0)


def test_kinds_of_images() -> None:
    grey = hugging_face(pictures([picture(7, mode="L"), picture(9, mode="L")], [0, 1])).columns["x"]
    assert (grey.shape, grey[:, 0, 0].tolist()) == ((2, 2, 3), [7, 9])
    palette = hugging_face(pictures([picture(RED).quantize(2), picture((0, 0, 0, 0), mode="RGBA")], [0, 1])).columns[
        "x"
    ]
    assert palette[:, 0, 0].tolist() == [list(RED), [255, 255, 255]]
    raw = pictures([picture(RED)], [0]).cast_column("image", datasets.Image(decode=False))
    assert hugging_face(raw).columns["x"][0, 0, 0].tolist() == list(RED)


def test_splits() -> None:
    one, two = pictures([picture(RED), picture(GREEN)], [1, 0]), pictures([picture(BLUE)], [0])
    data = hugging_face(datasets.DatasetDict({"test": two, "extra": two, "train": one}))
    assert data.columns["x"][:, 0, 0].tolist() == [list(RED), list(GREEN), list(BLUE)]
    assert (data.train.tolist(), data.validation.tolist(), data.test.tolist()) == ([0, 1], [], [2])
    assert data.note == "splits left out: extra"
    data = hugging_face(datasets.DatasetDict({"train": two, "valid": one, "test": two}))
    assert (data.train.tolist(), data.validation.tolist(), data.test.tolist()) == ([0], [1, 2], [3])
    assert (data.columns["y"].tolist(), data.note) == ([0, 1, 0, 0], "")
    data = hugging_face(datasets.DatasetDict({"train": two, "valid": two, "validation": one}))
    assert (data.validation.tolist(), data.note) == ([1, 2], "splits left out: valid")


def test_several_columns_are_features() -> None:
    table = numbers(a=[1, 2, 3], b=[0.5, 1.5, 2.5], y=[0, 2, 1])
    x = hugging_face(table, x=["b", "a"]).columns["x"]
    assert (x.dtype, x.tolist()) == (np.float32, [[0.5, 1], [1.5, 2], [2.5, 3]])
    assert hugging_face(table, x=["a"]).columns["x"].tolist() == [[1], [2], [3]]
    assert hugging_face(table, x="a").columns["x"].tolist() == [1, 2, 3]


def test_arrays_and_lists() -> None:
    features = datasets.Features(
        {"m": datasets.Array2D((2, 2), "uint8"), "f": datasets.Array3D((1, 1, 2), "float64"),
         "l": datasets.Sequence(datasets.Value("int16")), "y": datasets.Value("int8")}
    )  # fmt: skip
    made = {"m": [[[1, 2], [3, 240]]] * 3, "f": [[[[0.5, 1]]]] * 3, "l": [[5, 6], [7, 8], [9, 10]], "y": [1, 0, 1]}
    data = datasets.Dataset.from_dict(made, features=features)
    for name, kind in (("m", np.uint8), ("f", np.float32), ("l", np.int16)):
        x = hugging_face(data, x=name).columns["x"]
        assert (x.dtype, x.tolist()) == (kind, made[name])


def test_texts_as_labels_and_users_over_batches() -> None:
    data = hugging_face(numbers(x=[1.0, 2.0, 3.0], y=["no", "no", "maybe"], who=[2**40 + 1, 2**40, 7]), user="who")
    assert (data.columns["y"].tolist(), data.class_names) == ([1, 1, 0], ("maybe", "no"))
    assert data.user_names == ("7", "1099511627776", "1099511627777")


def test_large_users_as_floats_stay_apart() -> None:
    assert hugging_face(numbers(x=[1, 2], y=[0, 1], who=[2.0**24, 2.0**24 + 1]), user="who").user_names == (
        "16777216",
        "16777217",
    )


def test_a_format_set_before_does_not_matter() -> None:
    table = numbers(x=[1.0, 2.0], label=[0, 1]).with_transform(lambda _: {"x": ["nonsense"], "label": ["nonsense"]})
    assert hugging_face(table).columns["x"].tolist() == [1, 2]


@pytest.mark.parametrize("odd", [picture(RED, (5, 4)), picture(3, mode="L")])
def test_images_of_two_sizes(odd: Image.Image) -> None:
    shape = r"\(4, 5, 3\)" if odd.mode == "RGB" else r"\(2, 3\)"
    for n in (2, 3):  # inside a batch, and at the beginning of one
        data = pictures([picture(RED)] * n + [odd] * 2, [0] * (n + 2))
        with pytest.raises(
            DataError, match=rf"row {n} of image of train has the shape {shape}, but the first .*\(2, 3, 3\)"
        ):
            hugging_face(data)
    small = pictures([odd], [0])
    with pytest.raises(DataError, match=rf"row 0 of image of test has the shape {shape}, but the first .*\(2, 3, 3\)"):
        hugging_face(datasets.DatasetDict({"train": pictures([picture(RED)], [0]), "test": small}))


def test_missing_values() -> None:
    with pytest.raises(DataError, match="row 1 of image of train is missing"):
        hugging_face(pictures([picture(RED), None], [0, 1]))
    with pytest.raises(DataError, match="row 3 of x of train is missing"):
        hugging_face(numbers(x=[1, 2, 3, None], y=[0, 1, 1, 0]))
    with pytest.raises(DataError, match="row 2 of y of train is missing"):
        hugging_face(numbers(x=[1, 2, 3], y=["a", "b", None]))
    with pytest.raises(DataError, match="row 2 of who of train is missing"):
        hugging_face(numbers(x=[1, 2, 3], y=[0, 1, 0], who=[1, 1, None]), user="who")


def test_rows_of_two_lengths() -> None:
    with pytest.raises(DataError, match=r"row 2 of x of train has the shape \(1,\), but the first row \(2,\)"):
        hugging_face(numbers(x=[[1, 2], [3, 4], [5]], y=[0, 1, 0]))


def test_an_image_that_cannot_be_decoded() -> None:
    data = datasets.Dataset.from_dict({"image": [{"bytes": b"no image", "path": None}], "label": [0]})
    with pytest.raises(DataError, match="image of train cannot be read in rows 0 to 0"):
        hugging_face(data.cast_column("image", datasets.Image()))


def test_columns_that_are_not_clear() -> None:
    data = pictures([picture(RED)], [0], other=[1])
    with pytest.raises(UnknownName, match="x must be one of image, label, other, but is 'pixels'"):
        hugging_face(data, x="pixels")
    with pytest.raises(UnknownName, match="y must be one of image, label, other, but is 'class'"):
        hugging_face(data, y="class")
    with pytest.raises(UnknownName, match="user must be one of image, label, other, but is 'who'"):
        hugging_face(data, user="who")
    columns = r"the columns are a \(Value\), b \(Value\)"
    with pytest.raises(DataError, match=rf"x must name a column: there are 0 of the type Image, .* x; {columns}"):
        hugging_face(numbers(a=[1], b=[2]))
    with pytest.raises(DataError, match=rf"y must name a column: there are 0 of .* label or y; {columns}"):
        hugging_face(numbers(a=[1], b=[2]), x="a")
    twice = pictures([picture(RED)], [0], again=[picture(RED)])
    with pytest.raises(DataError, match="x must name a column: there are 2 of the type Image"):
        hugging_face(twice)


def test_what_cannot_be_used() -> None:
    with pytest.raises(ArgumentError, match=r"dataset must be a datasets\.Dataset or .*, but is 'IterableDataset'"):
        hugging_face(numbers(x=[1], y=[0]).to_iterable_dataset())
    with pytest.raises(DataError, match="has no split train, only test"):
        hugging_face(datasets.DatasetDict({"test": numbers(x=[1], y=[0])}))
    with pytest.raises(DataError, match="the split test has no column y, only x"):
        hugging_face(datasets.DatasetDict({"train": numbers(x=[1], y=[0]), "test": numbers(x=[1])}))
    with pytest.raises(DataError, match="the split train has no rows"):
        hugging_face(numbers(x=[], y=[]))
    with pytest.raises(DataError, match="label of train must hold class numbers, whole and from 0, but row 1 is -1"):
        hugging_face(pictures([picture(RED)] * 2, [0, -1]))
    with pytest.raises(DataError, match="x of train must hold numbers, all rows of one shape, but is of type"):
        hugging_face(numbers(x=["a"], y=[0]))
    with pytest.raises(DataError, match=r"of several columns each must hold one number a row, but b holds \(2,\)"):
        hugging_face(numbers(a=[1], b=[[1, 2]], y=[0]), x=["a", "b"])
    with pytest.raises(ArgumentError, match=r"x must be at least one column, but is \[\]"):
        hugging_face(numbers(x=[1], y=[0]), x=[])


def test_splits_that_number_their_classes_differently() -> None:
    one = pictures([picture(RED)], [0])
    other = one.cast_column("label", datasets.ClassLabel(names=["dog", "cat"]))
    with pytest.raises(
        DataError, match=r"the classes of test must be those of train, \('cat', 'dog'\), but are \('dog', "
    ):
        hugging_face(datasets.DatasetDict({"train": one, "test": other}))
