from dataclasses import fields

import numpy as np
import pytest

from fedloom.data.partition import affinity
from fedloom.errors import ArgumentError
from fedloom.runs import Experiment


def counts(labels: np.ndarray, clients: int, share: float, seed: int = 0) -> tuple[np.ndarray, str]:
    deal = affinity(clients, share).deal(labels, np.random.default_rng(seed))
    classes = labels.max() + 1
    return np.bincount(deal.owner * classes + labels[deal.rows], minlength=clients * classes).reshape(
        clients, -1
    ), deal.note


def test_cats_and_dogs_80_20() -> None:
    found, note = counts(np.repeat([0, 1], 700), 10, 0.8)
    assert found.sum(axis=1).tolist() == [140] * 10
    assert (found.max(axis=1) >= 112).all()
    assert (found.max(axis=1) <= 112 + 28).all()
    assert np.argmax(found, axis=1).tolist().count(0) == 5
    low, high = found.max(axis=1).min() / 140, found.max(axis=1).max() / 140
    first = "(first 80%, then at random from all that is left)"
    assert note == f"{low:.0%} to {high:.0%} of a client is its favourite class {first}, 140 examples each"


@pytest.mark.parametrize(("classes", "share"), [(2, 0.8), (10, 0.8), (4, 0.5)])
def test_the_expected_share_of_the_favourite_is_the_formula(classes: int, share: float) -> None:
    labels = np.repeat(np.arange(classes), 400)
    expected = share + (1 - share) / classes
    # the clients of a class share what is left of it: with as many clients as classes the mean is exact in expectation
    shares = [counts(labels, classes, share, seed)[0].max(axis=1).mean() / 400 for seed in range(20)]
    spread = np.std(shares, ddof=1) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - expected) < 4 * spread < 0.02
    formula = " ".join((affinity.__doc__ or "").split())
    assert "s + (1 - s)·r, with C classes of equal size s + (1 - s)/C" in formula
    assert "s + (1 - s)/C" in next(f for f in fields(Experiment) if f.name == "affinity").metadata["help"]


def test_everything_or_nothing() -> None:
    only, _ = counts(np.repeat([0, 1], 50), 4, 1.0)
    assert sorted(only.tolist()) == [[0, 25], [0, 25], [25, 0], [25, 0]]
    none, _ = counts(np.repeat([0, 1], 5000), 4, 0.0)
    assert np.abs(none / 2500 - 0.5).max() < 0.05


def test_rare_classes_have_fewer_lovers() -> None:
    found, _ = counts(np.repeat([0, 1], [900, 100]), 10, 0.8)
    assert np.argmax(found, axis=1).tolist().count(1) == 1


def test_a_favourite_that_is_too_small_is_shared_and_said() -> None:
    found, note = counts(np.repeat([0, 1], [56, 44]), 3, 1.0)
    assert found.sum(axis=1).tolist() == [34, 33, 33]
    assert note.endswith("33 to 34 examples each; first only 85% where that class is too small")


def test_bad_share() -> None:
    with pytest.raises(ArgumentError, match=r"share must be between 0 and 1, but is 1.2"):
        affinity(3, 1.2)
