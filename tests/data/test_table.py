import numpy as np
import pytest

from fedloom.data.read_as import ReadAs
from fedloom.data.table import Table
from fedloom.data.texts import Texts
from fedloom.errors import ArgumentError, DataError, UnknownName


def texts(*values: str) -> Texts:
    names = list(dict.fromkeys(v for v in values if v))
    return Texts(np.array([names.index(v) if v else -1 for v in values], np.int32), names)


def test_numbers_and_texts_become_features() -> None:
    table = Table("toy", {
        "n": np.array([1.0, np.nan, 3.0], np.float32), "colour": texts("red", "", "blue"),
        "class": texts("10", "9", "10"), "who": texts("b", "a", "b"),
    })  # fmt: skip
    data = table.dataset("class", "who")
    assert data.class_names == ["9", "10"]  # in the order of numbers
    assert data.columns["y"].tolist() == [1, 0, 1]
    assert data.users is not None
    assert [data.user_names[u] for u in data.users] == ["b", "a", "b"]
    assert np.nan_to_num(data.columns["x"], nan=-7).tolist() == [[1, 0, 1], [-7, 0, 0], [3, 1, 0]]  # n, blue, red
    assert data.standardise is not None
    assert data.standardise.tolist() == [True, False, False]
    assert data.features == ["n", "colour=blue", "colour=red"]


def test_a_missing_label_or_user_names_its_row() -> None:
    table = Table("toy", {"n": np.zeros(2, np.float32), "class": texts("a", ""), "who": texts("", "b")})
    with pytest.raises(DataError, match="row 2 of toy has no label: column class is empty there"):
        table.dataset("class")
    with pytest.raises(DataError, match="row 1 of toy has no user"):
        Table("toy", {**table.columns, "class": texts("a", "b")}).dataset("class", "who")


def test_unknown_columns_list_those_there_are() -> None:
    table = Table("toy", {"n": np.zeros(2, np.float32), "class": texts("a", "b")})
    with pytest.raises(UnknownName, match=r"user \(a column of toy\) must be one of class, n, but is 'who'"):
        table.dataset("class", "who")
    with pytest.raises(DataError, match="toy has no column left to learn from"):
        Table("toy", {"class": texts("a", "b")}).dataset("class")


def test_what_is_no_label() -> None:
    n = np.arange(30.0) / 4
    with pytest.raises(DataError, match="column n of toy is no label: 30 different values in 30 rows"):
        Table("toy", {"n": n, "m": n}).dataset("n")
    assert Table("toy", {"n": n, "one": texts(*"a" * 30)}).dataset("one").class_names == ["a"]  # all that one knows
    with pytest.raises(ArgumentError, match="user must be another column than the label one"):
        Table("toy", {"n": n, "one": texts(*"ab" * 15)}).dataset("one", "one")


def test_it_says_how_each_column_is_read() -> None:
    columns = {"n": np.array([0.0, np.nan]), "colour": texts("red", "blue"), "class": texts("a", "b")}
    sources = {"n": ("%", "0%"), "no": ("dropped", "1"), "colour": ("", "red"), "class": ("", "a")}
    assert Table("toy", columns, sources=sources).dataset("class").read_as == (
        ReadAs("n", "number (%)", "0%", missing=1),
        ReadAs("no", "dropped", "1"),
        ReadAs("colour", "category, 2 texts", "red"),
        ReadAs("class", "label, 2 classes", "a"),
    )


def test_too_many_texts() -> None:
    table = Table("toy", {"code": texts(*(f"t{i}" for i in range(1001))), "class": texts(*["a", "b"] * 500, "a")},
                  categorical=frozenset(["code"]))  # fmt: skip
    with pytest.raises(DataError, match="column code of toy has 1,001 different texts, more than 1,000: --drop code"):
        table.dataset("class")
