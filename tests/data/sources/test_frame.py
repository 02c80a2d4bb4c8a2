import numpy as np
import pytest

from fedloom.data import frame
from fedloom.data.dates import WEEKDAYS
from fedloom.errors import ArgumentError, DataError, FedloomWarning, UnknownName

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
    with pytest.raises(DataError, match="column how_long of the frame holds timedelta64"):
        frame(people().assign(how_long=pd.Timedelta(days=1)), "class")
    with pytest.raises(DataError, match="the frame has no rows"):
        frame(people().iloc[:0], "class")


def test_repeated_names_and_no_frames() -> None:
    twice = pd.concat([people(), people()[["n"]]], axis=1)
    with pytest.raises(DataError, match="the frame names the column 'n' twice"):
        frame(twice, "class")
    with pytest.raises(ArgumentError, match="data must be a pandas data frame, but is 'dict'"):
        frame({"a": [1]}, "a")  # type: ignore[arg-type]


def test_dates_and_texts_that_hold_numbers() -> None:
    when = pd.to_datetime(["1970-01-02 06:00", None])
    data = frame(pd.DataFrame({"when": when, "share": ["10%", "20%"], "y": [0.0, 1.0]}), "y")
    assert data.features == ["when (days)", *(f"when={day}" for day in WEEKDAYS), "when (hour, sine)",
                             "when (hour, cosine)", "share"]  # fmt: skip
    assert data.columns["x"][0, 0] == 1.25
    assert np.isnan(data.columns["x"][1, 0])
    assert data.columns["x"][:, -1].tolist() == [10, 20]
    assert data.class_names == ["0", "1"]
    zoned = pd.to_datetime(["1970-01-02 01:30"] * 2).tz_localize("Etc/GMT-2")
    assert frame(pd.DataFrame({"when": zoned, "y": [0, 1]}), "y").columns["x"][0, 0] == pytest.approx(23.5 / 24)


def test_identifiers_and_row_numbers() -> None:
    numbered = pd.DataFrame({"Unnamed: 0": range(30), "n": np.arange(30) / 2, "y": [0, 1] * 15})
    with pytest.warns(FedloomWarning, match="Unnamed: 0 of frame has no name and numbers the rows"):
        assert frame(numbered, "y").features == ["n"]
    with pytest.raises(DataError, match="column client of frame has the name of an identifier"):
        frame(people().rename(columns={"colour": "client"}), "class", "who")
    assert frame(numbered.rename(columns={"Unnamed: 0": "no"}), "y", numeric="no").features == ["no", "n"]


def test_numbers_to_be_predicted() -> None:
    data = frame(people(), "f", "who", task="regression", unlabelled="skip")
    assert data.columns["y"].tolist() == [0.5, 1.5, 2.0]
    with pytest.raises(DataError, match=r"column f of frame holds decimal numbers such as 0.5"):
        frame(people(), "f", "who", unlabelled="skip")
