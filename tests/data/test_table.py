import numpy as np
import pytest

from fedloom.data.table import Table, Texts, windows
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
    n = np.arange(30.0)
    with pytest.raises(DataError, match="column n of toy is no label: 30 different values in 30 rows"):
        Table("toy", {"n": n, "m": n}).dataset("n")
    assert Table("toy", {"n": n, "one": texts(*"a" * 30)}).dataset("one").class_names == ["a"]  # all that one knows
    with pytest.raises(ArgumentError, match="user must be another column than the label one"):
        Table("toy", {"n": n, "one": texts(*"ab" * 15)}).dataset("one", "one")


def test_the_note_says_what_the_features_are() -> None:
    columns = {"n": np.zeros(4), "colour": texts("red", "blue", "red", ""), "class": texts(*"abab")}
    assert Table("toy", columns).dataset("class").note == "1 column of numbers, 1 of texts: colour (2 texts)"


def test_too_many_texts() -> None:
    table = Table("toy", {"id": texts(*(f"t{i}" for i in range(1001))), "class": texts(*["a", "b"] * 500, "a")})
    with pytest.raises(DataError, match="column id of toy has 1,001 different texts"):
        table.dataset("class")


def test_windows_never_mix_users_or_labels() -> None:
    users, labels = np.repeat([0, 1, 0], [5, 4, 3]), np.array([0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1])
    x, y, whose, note = windows(np.arange(12.0)[:, None], labels, users, window=2, step=2)
    assert whose is not None
    # user 0 has rows 0-4 and 9-11: classes 0,0,0 then 1,1,1,1,1; user 1 rows 5-8, class 0
    assert x[..., 0].tolist() == [[0, 1], [3, 4], [9, 10], [5, 6], [7, 8]]
    assert y.tolist() == [0, 1, 1, 0, 0]
    assert whose.tolist() == [0, 0, 0, 1, 1]
    assert note == "5 windows of 2 rows; 2 of 12 rows in none"


@pytest.mark.parametrize(
    ("step", "starts", "unused"), [(1, [0, 1, 2, 3], 0), (2, [0, 2], 1), (4, [0], 3), (3, [0, 3], 0)]
)
def test_steps(step: int, starts: list[int], unused: int) -> None:
    x, _, _, note = windows(np.arange(6.0)[:, None], np.zeros(6, int), None, window=3, step=step)
    assert x[:, 0, 0].tolist() == starts
    assert f"{unused} of 6 rows in none" in note
    assert ("windows overlap" in note) == (step < 3)


def test_windows_that_are_too_long() -> None:
    with pytest.raises(DataError, match="no user has 9 rows of one class in a row: the most is 4"):
        windows(np.zeros((7, 1)), np.array([0, 0, 0, 0, 1, 1, 1]), None, 9, 9)
    with pytest.raises(ArgumentError, match="window must be at least 1, but is 0"):
        windows(np.zeros((7, 1)), np.zeros(7, int), None, 0, 1)
