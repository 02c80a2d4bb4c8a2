import numpy as np
import pytest

from fedloom.data.partition import Examples, natural
from fedloom.errors import ArgumentError, DataError

USERS = Examples(np.zeros(6, int), 1, users=np.array([2, 0, 2, 2, 0, 3]), names=["ann", "bob", "cyd", "dan"])


def test_a_user_has_its_examples_in_order() -> None:
    deal = natural().deal(USERS, np.random.default_rng(0))
    assert deal.users is not None
    assert [USERS.names[u] for u in deal.users] == ["ann", "cyd", "dan"]
    assert [part.tolist() for part in np.split(deal.rows, np.cumsum(deal.sizes)[:-1])] == [[1, 4], [0, 2, 3], [5]]


def test_users_with_few_examples_are_left_out_and_it_is_said() -> None:
    deal = natural(least=2).deal(USERS, np.random.default_rng(0))
    assert deal.rows.tolist() == [1, 4, 0, 2, 3]
    assert deal.note == "2 users with 2 to 3 examples; 1 user with fewer than 2 left out"


def test_nobody_is_left() -> None:
    with pytest.raises(DataError, match="no user has 4 examples: the most any has is 3"):
        natural(least=4).deal(USERS, np.random.default_rng(0))


def test_unknown_users() -> None:
    with pytest.raises(DataError, match="nobody knows whose these examples are"):
        natural().deal(np.zeros(3, int), np.random.default_rng(0))


def test_some_users_at_random() -> None:
    users = np.repeat(np.arange(10), 3)
    examples = Examples(np.zeros(30, int), 1, users=users, names=[f"u{i}" for i in range(10)])
    deal = natural(most=4).deal(examples, np.random.default_rng(0))
    assert deal.sizes.tolist() == [3] * 4
    assert sorted(set(users[deal.rows].tolist())) == sorted(deal.users.tolist())
    assert natural(most=40).deal(examples, np.random.default_rng(0)).sizes.tolist() == [3] * 10
    assert deal.users.tolist() != natural(most=4).deal(examples, np.random.default_rng(1)).users.tolist()
    with pytest.raises(ArgumentError, match="most must be at least 1, but is 0"):
        natural(most=0)
