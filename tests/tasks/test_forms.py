"""Which operations of a model are done in another form, and that they give the same."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from user_models import close

from fedloom.tasks.forms import LARGE, fast
from fedloom.tasks.layers import SMALL
from fedloom.trees import flatten

FORMS = ("custom_vjp_call", "platform_index")


def operations(function: Any, *arguments: Any) -> set[str]:
    """The names of a traced function's operations, inside others too."""

    def found(jaxpr: Any) -> set[str]:
        inner = [v for e in jaxpr.eqns for value in e.params.values() for v in jax.tree.leaves(value)]
        deeper = [found(getattr(v, "jaxpr", v)) for v in inner if hasattr(v, "eqns")]
        return {e.primitive.name for e in jaxpr.eqns}.union(*deeper)

    return found(jax.make_jaxpr(function)(*arguments).jaxpr)


def changed(function: Any, *arguments: Any) -> bool:
    return bool(operations(fast(function), *arguments) & set(FORMS))


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "other"),
    [
        (SMALL, LARGE // 8, jnp.float32, True),
        (SMALL + 1, LARGE // 8, jnp.float32, False),
        (SMALL, LARGE // 8 - 1, jnp.float32, False),
        (SMALL, LARGE // 8, jnp.bfloat16, False),
    ],
)
def test_a_few_rows_times_a_large_matrix_in_single_precision(rows: int, columns: int, dtype: Any, other: bool) -> None:
    x, w = jnp.zeros((rows, 8), dtype), jnp.zeros((8, columns), dtype)
    assert changed(jnp.matmul, x, w) == other
    assert changed(lambda x, w: x @ w.T, x, w.T) == other


def test_what_is_left_as_it_is() -> None:
    x = jnp.zeros((4, 64, 64))
    assert not changed(jnp.matmul, x, x)  # a product for each of several
    assert not changed(lambda x, w: jnp.matmul(x, w, precision="highest"), x[0, :4], x[0])
    pool = lambda x, k: lax.reduce_window(x, -jnp.inf, lax.max, (1, k, k), (1, k, k), "VALID")  # noqa: E731
    assert changed(lambda x: pool(x, 8), x)
    assert not changed(lambda x: pool(x, 9), x)  # so many slices would be slower
    whole = jnp.zeros((1, 4, 4), jnp.int32)
    assert not changed(lambda x: lax.conv_general_dilated(x, x, (1,), "SAME"), whole)
    assert not changed(lambda x: lax.reduce_window(x, -9, lax.max, (1, 2, 2), (1, 2, 2), "VALID"), whole)


def test_a_small_network_with_all_of_them_and_its_gradient() -> None:
    keys = jax.random.split(jax.random.key(0), 4)
    w = {"c": jax.random.normal(keys[0], (3, 3, 1, 4)), "d": jax.random.normal(keys[1], (64, 64)) / 8}
    x = jax.random.normal(keys[2], (5, 8, 8, 1))

    def loss(w: Any, x: jax.Array) -> jax.Array:
        h = lax.conv_general_dilated(x, w["c"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").reshape(5, -1)
        return jnp.sum(jnp.tanh(h @ w["d"]) @ w["d"].T) ** 2

    assert changed(loss, w, x)
    wanted, found = jax.jit(lambda: [jax.grad(f)(w, x) for f in (loss, fast(loss))])()
    for name, array in flatten(wanted).items():
        close(flatten(found)[name], array)
