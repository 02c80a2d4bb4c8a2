"""What holds for every split, and what each promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.data.partition import Deal
from fedloom.data.split import Shares, Split, naive, stratified, temporal
from fedloom.errors import ArgumentError

SPLITS = {
    "naive": naive,
    "shuffled": lambda v, t: naive(v, t, shuffle=True),
    "stratified": stratified,
    "by-label": lambda v, t: stratified(v, t, by_label=True),
    "temporal": temporal,
}
SIZES = st.lists(st.integers(3, 60), min_size=1, max_size=12)


def cut(split: Split, sizes: list[int], seed: int) -> tuple[Deal, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    deal = Deal(rng.permutation(sum(sizes)), np.array(sizes))
    labels = rng.integers(0, 4, sum(sizes))
    return deal, labels, split.assign(deal, labels, np.random.default_rng(seed))


def by_client(deal: Deal, part: np.ndarray) -> np.ndarray:
    return np.bincount(deal.owner * 3 + part, minlength=3 * len(deal.sizes)).reshape(-1, 3)


@pytest.mark.parametrize("name", SPLITS)
@settings(max_examples=40, deadline=None)
@given(sizes=SIZES, validation=st.floats(0, 0.45), test=st.floats(0, 0.45), seed=st.integers(0, 99))
def test_sizes_are_exact_and_every_example_is_in_one_part(
    name: str, sizes: list[int], validation: float, test: float, seed: int
) -> None:
    split: Split = SPLITS[name](validation, test)
    deal, _, part = cut(split, sizes, seed)
    assert part.shape == deal.rows.shape
    wanted = split.shares.sizes(deal.sizes).T if split.by_client else split.shares.sizes(np.array([sum(sizes)])).T
    found = by_client(deal, part)
    assert (found if split.by_client else found.sum(axis=0)[None]).tolist() == wanted.tolist()


@pytest.mark.parametrize("name", SPLITS)
def test_seeds_decide(name: str) -> None:
    parts = [cut(SPLITS[name](0.2, 0.2), [50, 50], 0)[0] for _ in range(2)]
    assert parts[0].rows.tolist() == parts[1].rows.tolist()
    deal, labels, _ = cut(SPLITS[name](0.2, 0.2), [50, 50], 0)
    found = [SPLITS[name](0.2, 0.2).assign(deal, labels, np.random.default_rng(s)).tolist() for s in (1, 1, 2)]
    assert found[0] == found[1]
    assert (found[0] == found[2]) == (name in ("naive", "temporal"))  # which are not random


def test_the_validation_share_is_corrected() -> None:
    """val/(1 - test): 60/20/20 of 100 is 60, 20 and 20, not 64, 16 and 20."""
    assert Shares(0.2, 0.2).sizes(np.array([100, 5, 1000])).T.tolist() == [[60, 20, 20], [3, 1, 1], [600, 200, 200]]


@given(n=st.integers(1, 5000), tenths=st.integers(0, 9))
def test_numbers_are_rounded_up_but_not_past_whole_ones(n: int, tenths: int) -> None:
    [[train], [validation], [test]] = Shares(0, tenths / 10).sizes(np.array([n]))
    assert test == -(-n * tenths // 10)
    assert validation == 0
    assert train == n - test


@settings(deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 99))
def test_by_label_keeps_every_clients_mix_to_one_example(sizes: list[int], seed: int) -> None:
    deal, labels, part = cut(stratified(0.2, 0.2, by_label=True), sizes, seed)
    shares = by_client(deal, part) / deal.sizes[:, None]
    for client in range(len(sizes)):
        mine = deal.owner == client
        for label in range(4):
            has = mine & (labels == label)
            tested = int((has & (part == 2)).sum())
            assert abs(tested - has.sum() * shares[client, 2]) < 1
            validated = int((has & (part == 1)).sum())
            assert abs(validated - has.sum() * shares[client, 1]) < 2


@settings(deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 99))
def test_temporal_never_trains_on_what_came_later(sizes: list[int], seed: int) -> None:
    deal, _, part = cut(temporal(0.2, 0.2), sizes, seed)
    for client in range(len(sizes)):
        mine = deal.owner == client
        last = [deal.rows[mine & (part == p)] for p in range(3)]
        assert last[0].max() < last[1].min()
        assert last[1].max() < last[2].min()


def test_naive_tests_on_clients_nobody_trained_on() -> None:
    deal, _, part = cut(naive(0.25, 0.25), [10, 10, 10, 10], 0)
    assert by_client(deal, part).tolist() == [[10, 0, 0], [10, 0, 0], [0, 10, 0], [0, 0, 10]]


@pytest.mark.parametrize(("validation", "test"), [(0.5, 0.5), (-0.1, 0.2), (0.2, 1.0)])
def test_bad_shares(validation: float, test: float) -> None:
    with pytest.raises(ArgumentError, match="must be"):
        stratified(validation, test)
