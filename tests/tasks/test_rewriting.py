"""Rewriting: the same function with sines done by another rule, wherever they stand."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fedloom.tasks.rewriting import concerns, rewritten

RULES = {"sin": lambda equation, x: 2 * x}  # noqa: ARG005
X = jnp.array([0.5, -1.0])


def scanned(x: jax.Array) -> Any:
    return lax.scan(lambda carry, a: (carry + jnp.sin(a), carry * a), jnp.float32(1), x, reverse=True)


def carried(x: jax.Array) -> Any:
    """With what is fixed (x), two things carried, and one that goes as it comes."""
    return lax.scan(lambda c, a: ((c[0] + jnp.sin(a) * x[0], c[1] * x), a), (jnp.float32(1), x), x)


def looped(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda c: jnp.sin(c[0]) < 9, lambda c: (c[0] + 1, jnp.sin(c[1])), (jnp.float32(0), x))[1]


@jax.custom_jvp
def own(x: jax.Array) -> jax.Array:
    return jnp.sin(x)


own.defjvp(lambda primals, tangents: (own(*primals), 7 * tangents[0]))

CASES = {
    "plain": (lambda x: jnp.sin(x) + 1, [2.0, -1.0]),
    "jit": (lambda x: jax.jit(lambda a, k: jnp.sin(a) * k)(x, 3.0), [3.0, -6.0]),
    "scan": (scanned, [1 + 1 - 2, -0.5, -1.0]),  # from the last: carry 1, then 1 + 2·(-1) = -1
    "carried": (carried, [1 + 0.5 - 1, 0.125, -1.0, 0.5, -1.0]),
    "cond": (lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), [1.0, -2.0]),
    "switch": (lambda x: lax.switch(2, [jnp.cos, jnp.tan, jnp.sin], x), [1.0, -2.0]),
    "while": (looped, [16.0, -32.0]),  # goes on while 2·c < 9: five times
    "remat": (lambda x: jax.checkpoint(lambda a: jnp.sin(a) ** 2)(x), [1.0, 4.0]),
    "nested": (lambda x: jax.jit(lambda a: lax.map(jax.checkpoint(jax.jit(jnp.sin)), a))(x), [1.0, -2.0]),
    "mapped": (lambda x: jax.vmap(jax.jit(jnp.sin))(x), [1.0, -2.0]),
    "gradient": (lambda x: jax.vmap(jax.grad(jnp.sin))(x), np.cos(X).tolist()),  # of sin is cos, which has no rule
}


@pytest.mark.parametrize("case", CASES)
def test_a_rule_reaches_into_every_operation(case: str) -> None:
    function, wanted = CASES[case]
    found = jnp.concatenate([jnp.ravel(a) for a in jax.tree.leaves(rewritten(function, RULES)(X))])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("case", ["scan", "carried", "cond", "remat", "nested"])
def test_what_is_rewritten_is_compiled_and_has_gradients(case: str) -> None:
    total = lambda f: lambda x: sum(jnp.sum(a) for a in jax.tree.leaves(f(x)))  # noqa: E731
    replaced = lambda f: rewritten(f, {"sin": lambda equation, x: jnp.sin(x)})  # noqa: ARG005, E731
    function = CASES[case][0]
    found, wanted = jax.jit(lambda x: [jax.grad(total(f))(x) for f in (replaced(function), function)])(X)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_function_with_a_derivative_of_its_own_is_left_alone() -> None:
    kept = rewritten(lambda x: own(x) + jnp.sin(x), RULES)
    np.testing.assert_allclose(kept(X), np.sin(X) + 2 * X, rtol=1e-6)
    assert jax.grad(lambda x: kept(x).sum())(X).tolist() == [9, 9]


def test_a_rule_may_decline() -> None:
    large = lambda equation, x: 2 * x if x.size > 1 else NotImplemented  # noqa: ARG005, E731
    found = rewritten(lambda x: (jnp.sin(x), jnp.sin(x[0])), {"sin": large})(X)
    np.testing.assert_allclose(found[0], 2 * X)
    np.testing.assert_allclose(found[1], np.sin(0.5), rtol=1e-6)


def test_a_rule_sees_the_operation_it_stands_for() -> None:
    seen = []
    rewritten(lambda x: jnp.cumsum(x, axis=1), {"cumsum": lambda e, x: seen.append(e.params["axis"]) or x})(X[None])
    assert seen == [1]


def test_keys_and_nothing_are_arguments_too() -> None:
    def draw(tree: dict[str, Any], key: Any, scale: Any) -> Any:
        noise = 0 if key is None else jax.random.normal(key, (2,))
        return {"y": jnp.sin(tree["x"]) + noise, "scale": scale}

    quick, key = rewritten(draw, RULES), jax.random.key(3)
    assert quick({"x": X, "none": None}, None, None) == {"y": pytest.approx([1, -2]), "scale": None}
    found = jax.jit(quick)({"x": X}, key, 2.0)
    np.testing.assert_allclose(found["y"], 2 * X + jax.random.normal(key, (2,)), rtol=1e-6)
    assert found["scale"] == 2


def test_several_experiments_side_by_side() -> None:
    found = jax.vmap(rewritten(lambda x: lax.cond(x > 0, jnp.sin, jnp.negative, x), RULES))(X)
    assert found.tolist() == [1, 1]


def test_whether_a_traced_function_is_concerned() -> None:
    traced = [jax.make_jaxpr(f)(X).jaxpr for f in (jnp.cos, scanned)]
    assert [concerns(inner, RULES) for inner in traced] == [False, True]


def test_a_compiled_function_is_done_by_the_rule_of_its_name() -> None:
    @jax.jit
    def both(x):
        return x + 1, x + 2

    rules = {"call of both": lambda operation, x: [x * 3, x * 4]}  # noqa: ARG005
    inside = lambda x: jax.jit(lambda x: sum(both(x)))(x)  # noqa: E731
    assert (rewritten(inside, rules)(X) == 7 * X).all()
    assert (rewritten(inside, {"call of neither": rules["call of both"]})(X) == 2 * X + 3).all()
