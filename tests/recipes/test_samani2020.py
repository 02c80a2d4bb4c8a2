from pathlib import Path

import numpy as np
import pytest

from fedloom.errors import FedloomError
from fedloom.recipes.part import Found
from fedloom.recipes.samani2020 import FAVOURITE, METHODS, SAMANI2020, SEEDS, SETS, series
from fedloom.recipes.series import Kept
from fedloom.runs.prepare import federated
from fedloom.runs.users import worst


def test_every_data_set_has_every_method() -> None:
    assert list(SAMANI2020.parts) == ["postures", "wisdm", "hapt", "cats-dogs", "rates"]
    names = {s.name for part in SETS for s in series(part).values()}
    assert len(names) == len(SETS) * len(METHODS) == 36
    e = series("wisdm")["personalised, std-dev"].experiment
    assert (e.algorithm, e.weighting, e.exclude, e.fraction, e.users) == ("personalised", "uniform", 1.0, 1.0, "yes")
    assert series("cats-dogs")["global user"].experiment.algorithm == "central"


def test_the_table_is_of_users() -> None:
    last = {f"{s} last {read}_accuracy": [0.5 + 0.1 * s, 0.7, np.nan] for s in range(2)
            for read in ("before", "after", "global")}  # fmt: skip
    curves = {f"{s} users_{m}_accuracy": [0.4, 0.5] for s in range(2) for m in ("before", "after")}
    kept = Kept("x", {"round": [0.0, 5.0], **curves, **last, "0 last mixing": list(np.eye(3).ravel())}, {})
    part = SAMANI2020.part("wisdm")
    found = Found(series={"wisdm-personalised-weighted": kept})
    assert (
        "| personalised, weighted | 62.50% ± 31.77 | 62.50% ± 31.77 | 62.50% ± 31.77 | 55.00% ± 63.53 |"
        in part.text(found)
    )
    assert [p.name for p in part.pictures(found)] == ["wisdm-rounds", "wisdm-users", "wisdm-mixing"]


def test_the_worst_tenth_is_at_least_one() -> None:
    assert worst(np.array([0.9, 0.2, np.nan, 0.5]), "higher") == 0.2
    np.testing.assert_allclose(worst(np.linspace(0, 1, 20), "higher"), 1 / 38)
    assert worst(np.array([0.9, 0.2, np.inf, 0.5]), "lower") == 0.9


def test_nothing_recorded_is_nothing_said() -> None:
    part = SAMANI2020.part("hapt")
    assert part.text(Found()) == ""
    assert not list(part.pictures(Found()))


def test_what_is_not_clear_is_called_so() -> None:
    def made(accuracies: list[float]) -> Kept:
        reads = {f"{s} last {read}_accuracy": [a] for s, a in enumerate(accuracies)
                 for read in ("before", "after", "global")}  # fmt: skip
        return Kept("x", reads, {"runs": 2})

    every = {f"wisdm-{m.replace(', ', '-').replace(' ', '-')}": made([0.5, 0.6]) for m in METHODS}
    every["wisdm-central-weighted"] = made([0.6, 0.7])
    page = SAMANI2020.introduction(Found(series=every))
    assert "weighted by accuracy instead of equally, before fitting:\n  +10.0 (wisdm)." in page
    assert "without models far below the mean, before fitting: nothing clear (wisdm)." in page
    assert "(two with `--quick`; 9 on this page)" in page


def test_cats_and_dogs_are_left_out_of_the_summary() -> None:
    """Every method differs from every other there, and the summary names only WISDM."""
    every = {}
    for part in ("wisdm", "cats-dogs"):
        for i, method in enumerate(METHODS):
            reads = {f"{s} last {read}_accuracy": [0.5 + 0.01 * i + 1e-4 * s] for s in range(2)
                     for read in ("before", "after", "global")}  # fmt: skip
            every[f"{part}-{method.replace(', ', '-').replace(' ', '-')}"] = Kept("x", reads, {"runs": 2})
    page = SAMANI2020.introduction(Found(series=every))
    assert "(wisdm)" in page
    assert "(cats-dogs)" not in page
    assert "cats-dogs" not in page.split("What the numbers show")[1]


def test_the_favourites_share_of_cats_and_dogs() -> None:
    """The constant that the page states, computed from the data."""
    shares = []
    for seed in range(SEEDS):
        try:
            data = federated(series("cats-dogs")["federated"].experiment.replace(data_seed=seed))
        except FedloomError as error:
            pytest.skip(str(error))
        counts = [np.bincount(data.columns["y"][data.examples("test", k)], minlength=2) for k in range(len(data))]
        shares.append(np.mean([c.max() / c.sum() for c in counts]))
    assert round(float(np.mean(shares)), 3) == FAVOURITE


def test_the_page_states_what_limits_it() -> None:
    page = (Path(__file__).parents[2] / "docs/samani2020.md").read_text()
    assert "The best rate is the largest that was tried on 3 of 4 data sets (Hand postures, WISDM, HAPT)." in page
    assert "against no averaging, before fitting:\n  -6.3 (wisdm)" in page
    assert "On average 89.7% of a user's test images show its favourite" in page
    assert "+37.6" not in page
    assert "+3.1" not in page.split("## ")[0]


def test_learning_rates_are_told_of_what_was_tried() -> None:
    kept = Kept("wisdm-rates", {"lr": [0.01, 0.03, 0.1], "validation_accuracy": [0.8, 0.82, 0.84]}, {})
    assert "| WISDM | 80.00% | 82.00% | 84.00% |" in SAMANI2020.part("rates").text(Found(series={"wisdm-rates": kept}))
