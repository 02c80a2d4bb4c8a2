import numpy as np
import pytest

from fedloom.data.windows import windows
from fedloom.errors import ArgumentError, DataError


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
