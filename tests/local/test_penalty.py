"""The gradient of each penalty is the gradient of its term."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.local import LinearPenalty, Penalty, ProximalPenalty, QuadraticPenalty
from fedloom.local.penalty import add_penalties

W = {"a": {"w": jnp.array([1.0, -2.0])}, "b": {"w": jnp.array([3.0])}}
V = {"a": {"w": jnp.array([0.5, 4.0])}, "b": {"w": jnp.array([-1.0])}}


def dot(a: Any, b: Any) -> Any:
    return sum(jnp.sum(x * y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def distance(w: Any) -> Any:
    away = jax.tree.map(jnp.subtract, w, V)
    return 0.7 / 2 * dot(away, away)


def quadratic(w: Any) -> Any:
    return 3 / 2 * dot(w["a"], w["a"]) + 5 / 2 * dot(w["b"], w["b"]) + jnp.sum(w["b"]["w"] * 2.0)


@pytest.mark.parametrize(
    ("penalty", "term"),
    [
        (ProximalPenalty(0.7, V), distance),
        (LinearPenalty(V), lambda w: dot(V, w)),
        (QuadraticPenalty({"a.w": jnp.float32(3), "b.w": jnp.float32(5)}, {"b.w": jnp.array([2.0])}), quadratic),
    ],
)
def test_a_gradient_is_that_of_the_term(penalty: Penalty, term: Callable[[Any], Any]) -> None:
    found, wanted = penalty.gradient(W), jax.grad(term)(W)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, wanted)


def test_penalties_add_up_and_are_scaled() -> None:
    ones = jax.tree.map(jnp.ones_like, W)
    found = add_penalties(ones, W, (LinearPenalty(W), LinearPenalty(V)), scale=-2.0)
    assert found["a"]["w"].tolist() == [1 - 2 * 1.5, 1 - 2 * 2.0]
    assert found["b"]["w"].tolist() == [1 - 2 * 2.0]
    assert add_penalties(ones, W, ()) is ones
