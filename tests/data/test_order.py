import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedloom.data.order import apportion, grouped, shuffled


@given(keys=st.lists(st.integers(0, 70_000), max_size=200))
def test_grouping_is_a_stable_sort(keys: list[int]) -> None:
    array = np.array(keys, np.int32)
    expected = np.argsort(array, kind="stable").tolist()
    assert grouped(array, 70_001).tolist() == expected  # more than 16 bits
    small = array % 1000
    assert grouped(small, 1000).tolist() == np.argsort(small, kind="stable").tolist()


@given(weights=st.lists(st.floats(0, 1e6), min_size=1, max_size=50), total=st.integers(0, 10_000))
def test_apportioned_numbers_add_up_and_are_near_their_share(weights: list[float], total: int) -> None:
    w = np.array(weights) + 1e-3
    found = apportion(w, total)
    assert found.sum() == total
    assert np.abs(found - total * w / w.sum()).max() <= 1 + 1e-6


@given(sizes=st.lists(st.integers(0, 20), max_size=20), seed=st.integers(0, 99))
def test_shuffling_stays_inside_groups(sizes: list[int], seed: int) -> None:
    order = shuffled(np.array(sizes, int), np.random.default_rng(seed))
    owner = np.repeat(np.arange(len(sizes)), sizes)
    assert sorted(order.tolist()) == list(range(sum(sizes)))
    assert (owner[order] == owner).all()
