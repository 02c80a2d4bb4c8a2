import numpy as np
import pytest

from fedloom.data.partition import lognormal, power
from fedloom.errors import ArgumentError


def test_a_power_law_is_one() -> None:
    sizes = np.sort(power(100, 1.0).deal(np.zeros(100_000, int), np.random.default_rng(0)).sizes)[::-1]
    harmonic = (1 / np.arange(1, 101)).sum()
    assert sizes.tolist() == pytest.approx((100_000 / harmonic / np.arange(1, 101)).tolist(), abs=1)


def test_logarithms_of_sizes_have_the_deviation() -> None:
    sizes = lognormal(2000, 0.7).deal(np.zeros(2_000_000, int), np.random.default_rng(0)).sizes
    assert np.log(sizes).std() == pytest.approx(0.7, abs=0.03)


def test_no_skew_is_even() -> None:
    for scheme in (lognormal(7, 0.0), power(7, 0.0)):
        sizes = scheme.deal(np.zeros(100, int), np.random.default_rng(0)).sizes
        assert sorted(sizes.tolist()) == [14] * 5 + [15] * 2


def test_everybody_has_the_least() -> None:
    sizes = power(50, 3.0, least=4).deal(np.zeros(1000, int), np.random.default_rng(0)).sizes
    assert sizes.min() == 4
    assert sizes.sum() == 1000


def test_a_huge_deviation_is_one_large_client() -> None:
    sizes = lognormal(10, 1000.0).deal(np.zeros(100, int), np.random.default_rng(0)).sizes
    assert sorted(sizes.tolist()) == [1] * 9 + [91]


def test_bad_numbers() -> None:
    with pytest.raises(ArgumentError, match="sigma must be at least 0, but is -1"):
        lognormal(10, -1)
    with pytest.raises(ArgumentError, match="sigma must be at least 0, but is inf"):
        lognormal(10, float("inf"))
    with pytest.raises(ArgumentError, match="exponent must be at least 0, but is -1"):
        power(10, -1)
    with pytest.raises(ArgumentError, match="least must be at most 2 for 10 clients of 20, but is 3"):
        power(10, least=3).deal(np.zeros(20, int), np.random.default_rng(0))
