import numpy as np
import pytest

from fedloom.errors import UnknownDirection, UnknownName
from fedloom.runs import History
from fedloom.runs.history import from_rows

ROWS = ({"round": 0, "test_loss": 3.0, "test_accuracy": 0.1}, {"round": 2, "test_loss": 1.0, "test_accuracy": 0.6},
        {"round": 4, "test_loss": 2.0, "test_accuracy": 0.5})  # fmt: skip


def test_best_so_far_of_accuracies_and_losses() -> None:
    history = History(ROWS)
    assert history.so_far("test_accuracy").tolist() == [0.1, 0.6, 0.6]
    assert history.so_far("test_loss").tolist() == [3, 1, 1]
    assert (history.best("test_loss"), history.last("test_loss")) == (1, 2)


def test_the_round_in_which_a_target_was_reached() -> None:
    history = History(ROWS)
    assert history.reached("test_accuracy", 0.55) == 2
    assert history.reached("test_loss", 2.5) == 2
    assert history.reached("test_accuracy", 0.7) is None


def test_a_row_added_is_a_new_history() -> None:
    history = History(ROWS)
    longer = history + {"round": 6, "test_loss": 0.5, "test_accuracy": 0.9}
    assert (len(history), len(longer)) == (3, 4)


def test_an_unknown_column_lists_the_known() -> None:
    with pytest.raises(UnknownName, match="column must be one of round, test_accuracy, test_loss, but is 'b'"):
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


def test_the_direction_is_declared_and_not_read_from_a_name() -> None:
    rows = ({"round": 0, "test_mae": 3.0, "test_ssim_loss": 1.0}, {"round": 1, "test_mae": 1.0, "test_ssim_loss": 2.0})
    history = from_rows(rows, {"mae": "lower", "ssim_loss": "higher"})
    assert (history.best("test_mae"), history.best("test_ssim_loss")) == (1, 2)
    assert (history.reached("test_mae", 1.5), history.crossing("test_mae", 2.0)) == (1, 0.5)


@pytest.mark.parametrize("name", ["best", "so_far", "reached", "crossing"])
def test_a_metric_without_a_direction_has_no_best_also_in_an_old_file(name: str) -> None:
    old = from_rows([{"round": 0, "test_mae": 3.0, "test_ssim_loss": 1.0}])
    for column in ("test_mae", "test_ssim_loss"):
        with pytest.raises(UnknownDirection, match=f"whether a higher or a lower '{column}' is better"):
            getattr(old, name)(column, *([0.5] if name in ("reached", "crossing") else []))


@pytest.mark.parametrize("cost", ["round", "seconds", "bytes"])
def test_a_cost_has_no_best(cost: str) -> None:
    with pytest.raises(UnknownDirection, match=f"'{cost}' has no best value: it is a cost"):
        History(({"round": 0, "seconds": 1.0, "bytes": 8.0},)).best(cost)
