import json

import numpy as np
import pytest

from fedloom.data.features import Features, of_json
from fedloom.errors import ArgumentError, DataError, FedloomWarning


def features(**columns: tuple[float, float] | list[str]) -> Features:
    """Columns of numbers by their mean and scale, and columns of texts by their texts."""
    names, numbers, scales, sources = [], [], [], []
    for column, about in columns.items():
        for name in about if isinstance(about, list) else [""]:
            names.append(f"{column}={name}" if name else column)
            numbers.append(isinstance(about, tuple))
            scales.append(about if isinstance(about, tuple) else (0.0, 1.0))
            sources.append(column)
    mean, scale = np.array(scales).T
    return Features(names, np.array(numbers), mean, scale, sources)


def test_examples_as_another_has_them() -> None:
    mine = features(age=(40.0, 10.0), ward=["icu"], pulse=(80.0, 5.0))
    theirs = features(pulse=(70.0, 10.0), ward=["er", "icu"], age=(50.0, 20.0))
    x = np.array([[1.0, 1.0, 2.0], [0.0, 0.0, -2.0]])  # 50 years, icu, pulse 90; 40 years, pulse 70
    assert mine.moved(x, theirs, "toy").tolist() == [[2, 0, 1, 0], [0, 0, 0, -0.5]]
    windows = mine.moved(np.stack([x, x]), theirs, "toy")
    assert windows.shape == (2, 2, 4)


def test_a_text_that_the_server_does_not_know_is_missing_after_a_warning() -> None:
    mine = features(age=(40.0, 10.0), ward=["icu", "spa"])
    x = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    with pytest.warns(FedloomWarning, match=r"toy has texts that the server does not know, ward=spa \(2 rows\)"):
        found = mine.moved(x, features(age=(40.0, 10.0), ward=["icu"]), "toy")
    assert found.tolist() == [[0, 1], [0, 0], [0, 0]]


def test_columns_that_are_not_the_servers() -> None:
    mine = features(age=(40.0, 10.0), weight=(70.0, 9.0))
    with pytest.raises(DataError, match=r"toy has the column `weight`, which the server does not have"):
        mine.moved(np.zeros((1, 2)), features(age=(0.0, 1.0)), "toy")
    with pytest.raises(DataError, match=r"toy lacks the column `pulse`, which the server requires"):
        mine.moved(np.zeros((1, 2)), features(age=(0.0, 1.0), weight=(0.0, 1.0), pulse=(0.0, 1.0)), "toy")
    alike = r"the column `weight` of toy is read as a number, but by the server as texts: say --categorical"
    with pytest.raises(DataError, match=alike):
        mine.moved(np.zeros((1, 2)), features(age=(0.0, 1.0), weight=["heavy", "light"]), "toy")


def test_what_is_told_comes_back() -> None:
    mine = features(age=(40.0, 10.0), ward=["icu"])
    again = of_json(json.loads(json.dumps(mine.to_json())))
    assert again.to_json() == mine.to_json()


@pytest.mark.parametrize(
    "change", [{"columns": []}, {"scale": [0.0]}, {"mean": [float("nan")]}, {"mean": [1.0, 2.0]}, {"names": "a"}]
)
def test_what_cannot_be_used_is_refused(change: dict[str, object]) -> None:
    good = {"names": ["a"], "columns": ["a"], "numbers": [True], "mean": [0.0], "scale": [1.0]}
    assert len(of_json(good)) == 1
    with pytest.raises(ArgumentError, match="the server's features must be names, and as many means and scales"):
        of_json({**good, **change})
