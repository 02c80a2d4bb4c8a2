import numpy as np
import pytest
from scipy.special import digamma

from fedloom.data.description import entropy
from fedloom.data.partition import dirichlet
from fedloom.data.partition.dirichlet import fitted
from fedloom.errors import ArgumentError, DataError

LABELS = np.repeat(np.arange(10), 600)


def counts(scheme: object, seed: int, labels: np.ndarray = LABELS) -> np.ndarray:
    deal = scheme.deal(labels, np.random.default_rng(seed))  # type: ignore[attr-defined]
    return np.bincount(deal.owner * 10 + labels[deal.rows], minlength=len(deal.sizes) * 10).reshape(-1, 10)


@pytest.mark.parametrize("balanced", [False, True])
def test_the_smaller_alpha_the_fewer_labels(balanced: bool) -> None:
    mean = [np.mean([entropy(counts(dirichlet(30, alpha, balanced=balanced), seed)).mean() for seed in range(5)])
            for alpha in (0.05, 0.5, 5.0, 500.0)]  # fmt: skip
    assert mean == sorted(mean)
    assert mean[0] < 1.3
    assert mean[-1] > 3.3  # log2(10) is 3.3219


@pytest.mark.parametrize("alpha", [0.01, 0.1, 1.0])
def test_balanced_clients_have_the_same_size_and_every_class_is_used_up(alpha: float) -> None:
    found = counts(dirichlet(40, alpha, balanced=True), 0)
    assert found.sum(axis=1).tolist() == [150] * 40
    assert found.sum(axis=0).tolist() == [600] * 10


def test_balanced_sizes_differ_by_one_where_they_must() -> None:
    labels = np.arange(103) % 10
    assert sorted(set(counts(dirichlet(10, 0.5, balanced=True), 0, labels).sum(axis=1).tolist())) == [10, 11]


def test_fitting_keeps_rows_columns_and_odds() -> None:
    mixes = np.random.default_rng(0).dirichlet(np.ones(4), size=6)
    sizes, classes = np.full(6, 20), np.array([30, 30, 40, 20])
    found = fitted(mixes, sizes, classes, times=500)
    assert np.abs(found.sum(axis=1) - sizes).max() < 0.05
    assert np.allclose(found.sum(axis=0), classes)
    odds = found[0, 0] * found[1, 1] / (found[0, 1] * found[1, 0])
    assert np.isclose(odds, mixes[0, 0] * mixes[1, 1] / (mixes[0, 1] * mixes[1, 0]))


def test_clients_without_examples_are_topped_up_and_it_is_said() -> None:
    deal = dirichlet(200, 0.01, least=5).deal(LABELS, np.random.default_rng(0))
    assert deal.sizes.min() == 5
    assert deal.sizes.sum() == 6000
    assert deal.note.endswith("clients topped up to 5 examples")


def test_bad_numbers() -> None:
    with pytest.raises(ArgumentError, match="alpha must be above 0, but is 0"):
        dirichlet(10, 0)
    with pytest.raises(ArgumentError, match="least must be at least 1, but is 0"):
        dirichlet(10, least=0)
    with pytest.raises(DataError, match="10 clients of at least 700 examples need 7,000, but there are 6,000"):
        dirichlet(10, least=700).deal(LABELS, np.random.default_rng(0))


@pytest.mark.parametrize(("alpha", "tolerance"), [(0.1, 0.2), (0.5, 0.06), (5.0, 0.01)])
def test_balanced_mixes_have_the_entropy_of_dirichlet_ones(alpha: float, tolerance: float) -> None:
    """E[H] = ψ(αN + 1) - ψ(α + 1) for N classes; fitting mixes to what there is of each class adds little to it."""
    expected = (digamma(10 * alpha + 1) - digamma(alpha + 1)) / np.log(2)
    found = np.mean([entropy(counts(dirichlet(60, alpha, balanced=True), seed)).mean() for seed in range(20)])
    assert found == pytest.approx(expected, abs=tolerance)


def test_sizes_do_not_depend_on_who_comes_first() -> None:
    """With shares of about half an example, rounding at the same places in every class would favour some clients."""
    labels = np.repeat(np.arange(10), 60)
    sizes = np.mean([dirichlet(100, 1000.0).deal(labels, np.random.default_rng(s)).sizes for s in range(100)], axis=0)
    assert np.abs(sizes - 6).max() < 1


@pytest.mark.parametrize("clients", [1, 2, 5])
@pytest.mark.parametrize("alpha", [0.05, 0.001, 1e-9])
def test_balanced_with_few_clients_and_a_tiny_alpha(clients: int, alpha: float) -> None:
    for seed in range(10):
        deal = dirichlet(clients, alpha, balanced=True).deal(LABELS, np.random.default_rng(seed))
        assert sorted(deal.rows.tolist()) == list(range(6000))
        assert deal.sizes.max() - deal.sizes.min() <= 1


@pytest.mark.parametrize(
    ("alpha", "need"),
    [(float("nan"), "above 0"), (float("inf"), "above 0"), ("a", "a number above 0"), (None, "a number above 0")],
)
def test_what_is_no_alpha(alpha: object, need: str) -> None:
    with pytest.raises(ArgumentError, match=f"alpha must be {need}, but is"):
        dirichlet(10, alpha)  # type: ignore[arg-type]
