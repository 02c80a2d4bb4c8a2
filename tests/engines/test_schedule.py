import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedloom.engines.schedule import deal


def test_very_long_work_is_balanced_too() -> None:
    """Loads times clients would be beyond 64 bits."""
    m = 2**12
    dealt = deal(np.arange(m)[None], np.full((1, m), 2**44), devices=2)[0]
    assert (dealt >= 0).sum(axis=1).tolist() == [m // 2, m // 2]


@given(steps=st.lists(st.integers(1, 100), min_size=1, max_size=30), devices=st.integers(1, 5))
def test_everybody_is_dealt_once_and_loads_are_balanced(steps: list[int], devices: int) -> None:
    work = np.array([steps])
    cohort = np.arange(100, 100 + len(steps))[None]
    dealt = deal(cohort, work, devices)[0]
    assert sorted(dealt[dealt >= 0].tolist()) == cohort[0].tolist()
    loads = [work[0, d[d >= 0] - 100].sum() for d in dealt]
    assert max(loads) <= sum(steps) / devices + max(steps)  # Graham's bound for list scheduling
    for d in dealt:
        own = work[0, d[d >= 0] - 100]
        assert (np.diff(own) <= 0).all()
