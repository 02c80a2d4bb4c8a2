import json

import numpy as np
import pytest

from fedloom.data.features import Features, of_json
from fedloom.errors import ArgumentError, DataError


def features(**columns: tuple[float, float] | None) -> Features:
    """Numbers by their mean and scale, and texts (``None``)."""
    mean, scale = zip(*(at or (0.0, 1.0) for at in columns.values()), strict=True)
    numbers = np.array([at is not None for at in columns.values()])
    return Features(list(columns), numbers, np.array(mean), np.array(scale))


def test_examples_as_another_has_them() -> None:
    mine = features(age=(40.0, 10.0), icu=None, pulse=(80.0, 5.0))
    theirs = features(pulse=(70.0, 10.0), er=None, age=(50.0, 20.0), icu=None)
    x = np.array([[1.0, 1.0, 2.0], [0.0, 0.0, -2.0]])  # 50 years, icu, pulse 90; 40 years, pulse 70
    assert mine.moved(x, theirs, "toy").tolist() == [[2, 0, 0, 1], [0, 0, -0.5, 0]]
    windows = mine.moved(np.stack([x, x]), theirs, "toy")
    assert windows.shape == (2, 2, 4)


def test_columns_that_are_not_the_servers() -> None:
    mine = features(age=(40.0, 10.0), weight=(70.0, 9.0))
    with pytest.raises(DataError, match=r"toy must have the server's columns, which are without: weight"):
        mine.moved(np.zeros((1, 2)), features(age=(0.0, 1.0)), "toy")
    with pytest.raises(DataError, match=r"toy must have the server's columns, which also are: pulse"):
        mine.moved(np.zeros((1, 2)), features(age=(0.0, 1.0), weight=(0.0, 1.0), pulse=(0.0, 1.0)), "toy")


def test_what_is_told_comes_back() -> None:
    mine = features(age=(40.0, 10.0), icu=None)
    again = of_json(json.loads(json.dumps(mine.to_json())))
    assert again.to_json() == mine.to_json()


@pytest.mark.parametrize("change", [{"scale": [0.0]}, {"mean": [float("nan")]}, {"mean": [1.0, 2.0]}, {"names": "a"}])
def test_what_cannot_be_used_is_refused(change: dict[str, object]) -> None:
    good = {"names": ["a"], "numbers": [True], "mean": [0.0], "scale": [1.0]}
    assert len(of_json(good)) == 1
    with pytest.raises(ArgumentError, match="the server's features must be names, and as many means and scales"):
        of_json({**good, **change})
