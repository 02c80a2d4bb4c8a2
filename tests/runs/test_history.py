import numpy as np
import pytest

from fedloom.errors import UnknownName
from fedloom.runs import History
from fedloom.runs.history import from_rows

ROWS = ({"round": 0, "a_loss": 3.0, "a_accuracy": 0.1}, {"round": 2, "a_loss": 1.0, "a_accuracy": 0.6},
        {"round": 4, "a_loss": 2.0, "a_accuracy": 0.5})  # fmt: skip


def test_best_so_far_of_accuracies_and_losses() -> None:
    history = History(ROWS)
    assert history.so_far("a_accuracy").tolist() == [0.1, 0.6, 0.6]
    assert history.so_far("a_loss").tolist() == [3, 1, 1]
    assert (history.best("a_loss"), history.last("a_loss")) == (1, 2)


def test_the_round_in_which_a_target_was_reached() -> None:
    history = History(ROWS)
    assert history.reached("a_accuracy", 0.55) == 2
    assert history.reached("a_loss", 2.5) == 2
    assert history.reached("a_accuracy", 0.7) is None


def test_a_row_added_is_a_new_history() -> None:
    history = History(ROWS)
    longer = history + {"round": 6, "a_loss": 0.5, "a_accuracy": 0.9}
    assert (len(history), len(longer)) == (3, 4)


def test_an_unknown_column_lists_the_known() -> None:
    with pytest.raises(UnknownName, match="column must be one of a_accuracy, a_loss, round, but is 'b'"):
        History(ROWS).column("b")


def test_a_value_that_a_row_lacks_is_nan() -> None:
    assert np.isnan((History(ROWS[:1]) + {"round": 9, "new": 1.0}).column("new")[0])


def test_crossings_are_interpolated_on_the_best_so_far() -> None:
    values = [(0, 0.1), (5, 0.8), (10, 0.6), (15, 0.9), (20, 0.95)]
    history = from_rows({"round": r, "test_accuracy": a, "test_loss": 1 - a} for r, a in values)
    assert history.crossing("test_accuracy", 0.85) == pytest.approx(12.5)  # between 0.8, kept from round 5, and 0.9
    assert history.crossing("test_loss", 0.15) == pytest.approx(12.5)
    assert history.crossing("test_accuracy", 0.8) == 5
    assert history.crossing("test_accuracy", 0.1) == 0
    assert history.crossing("test_accuracy", 0.96) is None


def test_where_a_target_is_crossed_in_bytes_and_seconds() -> None:
    history = History(tuple({"round": i, "seconds": 3.0 * i, "bytes_up": 10.0 * i, "bytes_down": 30.0 * i,
                             "test_accuracy": 0.2 * i} for i in range(4)))  # fmt: skip
    assert history.crossing("test_accuracy", 0.5) == pytest.approx(2.5)
    assert history.crossing("test_accuracy", 0.5, "bytes") == pytest.approx(100)
    assert history.crossing("test_accuracy", 0.5, "seconds") == pytest.approx(7.5)
    with pytest.raises(UnknownName, match="against must be one of bytes, clock, rounds, seconds, steps, but is 'time'"):
        history.crossing("test_accuracy", 0.5, "time")
