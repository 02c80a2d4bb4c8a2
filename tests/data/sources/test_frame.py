import numpy as np
import pytest

from fedloom.data import frame
from fedloom.errors import ArgumentError, DataError, UnknownName

pd = pytest.importorskip("pandas", reason="needs pandas")


def people() -> "pd.DataFrame":
    return pd.DataFrame({
        "who": ["b", "a", "b", "a"], "n": [1, 2, 3, 4], "f": [0.5, np.nan, 1.5, 2.0], "flag": [True, False, True, True],
        "colour": ["red", None, "blue", "red"], "class": pd.Categorical(["y", "x", "y", "y"]),
    })  # fmt: skip


def test_columns_of_all_kinds() -> None:
    data = frame(people(), "class", "who")
    assert data.class_names == ["x", "y"]
    assert data.columns["y"].tolist() == [1, 0, 1, 1]
    assert data.users is not None
    assert data.users.tolist() == [1, 0, 1, 0]
    assert np.nan_to_num(data.columns["x"], nan=-1).tolist() == [
        [1, 0.5, 1, 0, 1], [2, -1, 0, 0, 0], [3, 1.5, 1, 1, 0], [4, 2, 1, 0, 1],
    ]  # fmt: skip


def test_nullable_numbers() -> None:
    data = frame(pd.DataFrame({"n": pd.array([1, None], "Int64"), "y": [0, 1]}), "y")
    assert np.isnan(data.columns["x"][1, 0])
    assert data.columns["y"].tolist() == [0, 1]


def test_what_cannot_be_learned_from() -> None:
    with pytest.raises(UnknownName, match="but is 'label'"):
        frame(people(), "label")
    when = people().assign(when=pd.Timestamp("2026-01-01"))
    with pytest.raises(DataError, match="column when of the frame holds datetime64"):
        frame(when, "class")
    with pytest.raises(DataError, match="the frame has no rows"):
        frame(people().iloc[:0], "class")


def test_repeated_names_and_no_frames() -> None:
    twice = pd.concat([people(), people()[["n"]]], axis=1)
    with pytest.raises(DataError, match="the frame names the column 'n' twice"):
        frame(twice, "class")
    with pytest.raises(ArgumentError, match="data must be a pandas data frame, but is 'dict'"):
        frame({"a": [1]}, "a")  # type: ignore[arg-type]
