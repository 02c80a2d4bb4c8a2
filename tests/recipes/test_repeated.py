from pathlib import Path

import numpy as np
import pytest

from fedloom.errors import DivergedError
from fedloom.recipes.conduct import Conduct
from fedloom.recipes.repeated import apart, each, estimate, together
from fedloom.recipes.series import Kept
from fedloom.runs.experiment import Experiment


@pytest.fixture
def tiny(tmp_path: Path) -> Experiment:
    """Three users of a small CSV, and logistic regression."""
    rng = np.random.default_rng(0)
    rows = [f"{'abc'[i % 3]},{int(x[0] > 0)},{x[0]:.3f},{x[1]:.3f}" for i, x in enumerate(rng.normal(size=(90, 2)))]
    (tmp_path / "rows.csv").write_text("\n".join(["who,what,x,y", *rows]))
    return Experiment(
        data=str(tmp_path / "rows.csv"), user="who", label="what", model="logistic", validation_share=0.2,
        test_share=0.4, fraction=1.0, rounds=2, target=None, evaluate="test",
    )  # fmt: skip


def test_the_interval_is_students() -> None:
    found = estimate([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose((found.mean, found.half), (2.5, 3.182446 * np.std([1, 2, 3, 4], ddof=1) / 2), rtol=1e-6)
    assert estimate([0.01, 0.011, 0.012]).is_clear
    assert not estimate([-0.01, 0.011, 0.012]).is_clear
    assert estimate([0.01, 0.02]).points == "+1.50 [-4.85, +7.85]"


def test_seeds_on_one_partition_keep_their_curves(tiny: Experiment) -> None:
    columns = together(2)(tiny, Conduct())
    assert sorted(columns) == ["0 test_accuracy", "1 test_accuracy", "round"]
    assert columns["round"] == [0, 1, 2]
    kept = Kept("x", columns, {})
    assert each(kept, "test_accuracy").shape == (2, 3)
    assert columns["0 test_accuracy"] != columns["1 test_accuracy"]


@pytest.mark.parametrize("algorithm", ["central", "personalised"])
def test_seeds_with_splits_of_their_own_keep_users(tiny: Experiment, algorithm: str) -> None:
    users = "no" if algorithm == "central" else "yes"
    columns = apart(2)(tiny.replace(algorithm=algorithm, users=users), Conduct())
    kept = Kept("x", columns, {})
    for read in ("before", "after", "global"):
        assert each(kept, f"last {read}_accuracy").shape == (2, 3)
    assert (len(columns.get("0 last mixing", ())) == 9) == (algorithm == "personalised")
    assert "1 last mixing" not in columns


def test_a_seed_that_diverges_is_an_error_and_not_a_shorter_curve(tiny: Experiment) -> None:
    with pytest.raises(DivergedError, match="diverged"):
        together(2)(tiny.replace(lr=1e38), Conduct())
