import numpy as np
import pytest

from fedloom.data.partition import affinity
from fedloom.errors import ArgumentError


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
    assert note == "at least 80% of a client is its favourite class, 140 examples each"
    # what is not of the favourite class is drawn from what is left of both: half of 28, about 14
    assert pytest.approx(found.max(axis=1).mean(), abs=3) == 126


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
    assert note.startswith("at least 100% of a client is its favourite class, 33 to 34 examples each; but 85% where")


def test_bad_share() -> None:
    with pytest.raises(ArgumentError, match=r"share must be between 0 and 1, but is 1.2"):
        affinity(3, 1.2)
