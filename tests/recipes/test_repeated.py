import numpy as np
import pytest

from fedloom.errors import DivergedError
from fedloom.recipes.repeated import apart, each, estimate, together
from fedloom.recipes.series import Kept
from fedloom.runs.experiment import Experiment

TINY = Experiment(model="logistic", partition="iid", clients=3, pool="yes", split="stratified", validation_share=0.05,
                  test_share=0.9, fraction=1.0, batch_size=None, rounds=2, target=None, evaluate="test")  # fmt: skip


def test_the_interval_is_students() -> None:
    found = estimate([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose((found.mean, found.half), (2.5, 3.182446 * np.std([1, 2, 3, 4], ddof=1) / 2), rtol=1e-6)
    assert estimate([0.01, 0.011, 0.012]).is_clear
    assert not estimate([-0.01, 0.011, 0.012]).is_clear
    assert estimate([0.01, 0.02]).points == "+1.50 [-4.85, +7.85]"


def test_seeds_on_one_partition_keep_their_curves() -> None:
    columns = together(2)(TINY, None)
    assert sorted(columns) == ["0 test_accuracy", "1 test_accuracy", "round"]
    assert columns["round"] == [0, 1, 2]
    kept = Kept("x", columns, {})
    assert each(kept, "test_accuracy").shape == (2, 3)
    assert columns["0 test_accuracy"] != columns["1 test_accuracy"]


@pytest.mark.parametrize("algorithm", ["central", "personalised"])
def test_seeds_with_splits_of_their_own_keep_users(algorithm: str) -> None:
    users = "no" if algorithm == "central" else "yes"
    columns = apart(2)(TINY.replace(algorithm=algorithm, users=users), None)
    kept = Kept("x", columns, {})
    for read in ("before", "after", "global"):
        assert each(kept, f"last {read}_accuracy").shape == (2, 3)
    assert (len(columns.get("0 last mixing", ())) == 9) == (algorithm == "personalised")
    assert "1 last mixing" not in columns


def test_a_seed_that_diverges_is_an_error_and_not_a_shorter_curve() -> None:
    with pytest.raises(DivergedError, match="diverged"):
        together(2)(TINY.replace(lr=1e30), None)
