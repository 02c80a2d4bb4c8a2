from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom.selection.once as module
from fedloom.selection import cohorts, preference


@pytest.fixture
def known_shuffles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Passes of three clients, of which the second begins with the client that ends the first."""
    shuffles = [[0, 1, 2], [2, 0, 1], [1, 0, 2]]
    monkeypatch.setattr(module, "_shuffle", lambda seed, number, clients: np.array(shuffles[number]))  # noqa: ARG005
    module.pass_order.cache_clear()
    yield
    module.pass_order.cache_clear()


@pytest.mark.usefixtures("known_shuffles")
def test_cohorts_by_hand() -> None:
    found = cohorts("once", np.array([0], np.uint32), np.arange(4), np.ones(3), 2)[:, 0]
    assert found.tolist() == [[0, 1], [2, 0], [2, 1], [1, 0]]


@pytest.mark.usefixtures("known_shuffles")
def test_the_others_follow_in_the_order_of_the_pass() -> None:
    assert [preference("once", 0, round, np.ones(3), 2).tolist() for round in range(3)] == [
        [0, 1, 2], [2, 0, 1], [2, 1, 0]
    ]  # fmt: skip


@settings(deadline=None)  # a call may compile
@given(clients=st.integers(1, 14), share=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
def test_every_client_once_in_every_pass(clients: int, share: float, seed: int) -> None:
    m = max(1, round(share * clients))
    rounds = np.arange(3 * clients)
    found = cohorts("once", np.array([seed], np.uint32), rounds, np.ones(clients), m)[:, 0]
    passes = found.ravel()[: len(rounds) * m // clients * clients].reshape(-1, clients)
    assert len(passes) == 3 * m
    assert (np.sort(passes, axis=1) == np.arange(clients)).all()
    assert all(len(set(cohort)) == m for cohort in found.tolist())


@pytest.mark.parametrize(("clients", "m"), [(7, 2), (7, 5), (139, 137)])
def test_a_late_round_is_the_same_after_the_others_and_alone(clients: int, m: int) -> None:
    sizes, seed, last = np.ones(clients), np.array([5], np.uint32), clients - 2
    every = cohorts("once", seed, np.arange(last + 1), sizes, m)
    module.pass_order.cache_clear()
    assert (cohorts("once", seed, np.array([last]), sizes, m)[0] == every[last]).all()
    passes = every.ravel()[: every.size // clients * clients].reshape(-1, clients)
    assert (np.sort(passes, axis=1) == np.arange(clients)).all()
