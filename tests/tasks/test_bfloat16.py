"""Programs computed in bfloat16: which numbers are rounded, and which are not."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fedloom.errors import ArgumentError
from fedloom.tasks.bfloat16 import in_bfloat16

ONE = jnp.ones((1, 1))
STEP = 1 + 2**-7  # the number after 1 in bfloat16
BETWEEN = 1 + 2**-9  # which bfloat16 rounds to 1


compiled = partial(jax.jit, compiler_options={"xla_allow_excess_precision": False})
"""As it stands: by default XLA leaves out roundings between operations that it computes together."""


def filled(value: float, *shape: int) -> jax.Array:
    return jnp.full(shape, value, jnp.float32)


def rounded(x: jax.Array) -> jax.Array:
    """The same numbers, from a product: bfloat16 inside."""
    return jnp.pad(x, ((0, 0), (0, 1))) @ jnp.eye(x.shape[-1] + 1, x.shape[-1])


def outer(x: jax.Array) -> jax.Array:
    return jnp.einsum("i,j->ij", jnp.arange(300, dtype=jnp.float32), x[0])[-1]


def counted(x: jax.Array) -> jax.Array:
    """300 ones, added up step by step."""
    return lax.scan(lambda sum_so_far, one: (sum_so_far + one, None), jnp.zeros(1), jnp.tile(rounded(x), (300, 1)))[0]


def counted_while(x: jax.Array) -> jax.Array:
    one = rounded(x)[0]
    return lax.while_loop(lambda c: c[0] < 300, lambda c: (c[0] + 1, c[1] + one), (0, jnp.zeros(1)))[1]


def masked(x: jax.Array) -> jax.Array:
    """Softmax of logits that are all masked by float32's lowest number."""
    return jax.nn.softmax(jnp.where(jnp.zeros(4, bool), rounded(jnp.tile(x, 4)), jnp.finfo(jnp.float32).min))


def layered(x: jax.Array) -> jax.Array:
    """The variance of numbers far from zero, whose squares bfloat16 cannot tell apart."""
    h = rounded(jnp.concatenate([x, x + 1, x + 2, x + 3], axis=1))
    return (h**2).mean(axis=1) - h.mean(axis=1) ** 2


CASES = {
    "product": (lambda x: jnp.tile(x, 2) @ jnp.ones((2, 1)), BETWEEN, 2.0),
    "convolution": (lambda x: lax.conv(x[None, None], ONE[None, None], (1, 1), "SAME"), BETWEEN, 1.0),
    "sum of parameters": (lambda x: x + x, BETWEEN, 2 * BETWEEN),
    "bias": (lambda x: rounded(ONE) + x, BETWEEN, 2.0),
    "number": (lambda x: rounded(x) * 100.25 / 100, 2.0, 2.0),  # 100.25 rounds to 100, but 200.5 to 200
    "large number": (lambda x: rounded(x) * 1.1 * 10, 100.0, 1104.0),  # with 1.1 rounded it is 1096
    "tanh": (lambda x: jnp.tanh(rounded(x)), 0.5, float(jnp.tanh(jnp.bfloat16(0.5)))),
    "relu": (lambda x: jax.nn.relu(rounded(x)), STEP, STEP),
    "sum": (lambda x: rounded(jnp.tile(x, (1, 257))).sum(), 1.0, 257.0),
    "mean of squares": (lambda x: (rounded(jnp.tile(x, (1, 4))) ** 2).mean(), STEP, STEP**2),
    "variance": (layered, 100.0, 1.25),
    "exponential": (lambda x: jnp.exp(rounded(x)), 1.0, float(np.exp(np.float32(1)))),
    "softmax": (lambda x: jax.nn.softmax(rounded(jnp.tile(x, (1, 3))))[0, 0], 5.0, 1 / 3),
    "norm": (lambda x: rounded(jnp.tile(x, (1, 2))) * jnp.array([1.0, 2.0]) / rounded(x).mean(), 3.0, [1.0, 2.0]),
    "scan": (counted, 1.0, 300.0),
    "while": (counted_while, 1.0, 300.0),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, rounded, lambda x: x, x), BETWEEN, 1.0),
    "checkpoint": (lambda x: jax.checkpoint(lambda x: jnp.exp(rounded(x)))(x), 1.0, float(np.exp(np.float32(1)))),
    "call": (lambda x: jax.jit(rounded)(x), BETWEEN, 1.0),
    "barrier": (lambda x: lax.optimization_barrier((x, rounded(x)))[0], BETWEEN, BETWEEN),
    "positions": (outer, BETWEEN, 299 * BETWEEN),
    "highest precision": (lambda x: jnp.matmul(x, ONE, precision="highest"), BETWEEN, BETWEEN),
    "mask": (masked, 1.0, 0.25),
    "infinity": (lambda x: rounded(x) + jnp.inf, 1.0, np.inf),
    "comparison": (lambda x: (rounded(x) < BETWEEN).astype(float), 1.0, 1.0),
    "user's type": (lambda x: jnp.exp(x.astype(jnp.float16)).astype(jnp.float32), 1.0, float(jnp.exp(jnp.float16(1)))),
    "nan": (lambda x: jax.nn.relu(rounded(x)).max(), np.nan, np.nan),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_rounded(case: str) -> None:
    function, x, wanted = CASES[case]
    found = compiled(in_bfloat16(function))(filled(x, 1, 1))
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, np.broadcast_to(wanted, found.shape), rtol=2e-7)


def test_the_result_of_a_norm_is_rounded_by_the_next_activation() -> None:
    norm = lambda x: (x - x.mean()) / 3  # noqa: E731
    programs = [jax.make_jaxpr(in_bfloat16(f))(filled(1, 1, 3)) for f in (norm, lambda x: jnp.tanh(norm(rounded(x))))]
    kinds = [[str(v.aval.dtype) for e in p.eqns for v in e.outvars if v.aval.shape == (1, 3)] for p in programs]
    assert "bfloat16" not in kinds[0]
    assert kinds[1][-2:] == ["bfloat16", "float32"]  # the last is the result, which is float32 again


def test_gradients_are_float32_and_those_of_a_weight_that_is_used_again_are_added_in_float32() -> None:
    """d/dw of Σ w over 300 steps: in bfloat16 the sum would stay at 256."""

    def total(w: jax.Array) -> jax.Array:
        return lax.scan(lambda c, x: (c + (x @ w).sum(), None), 0.0, jnp.ones((300, 1, 2)))[0]

    found = compiled(jax.grad(in_bfloat16(total)))(jnp.ones((2, 1)))
    assert (found.dtype, found.tolist()) == (jnp.float32, [[300.0], [300.0]])


@jax.custom_jvp
def gate(x: jax.Array) -> jax.Array:
    return jnp.maximum(x, 0)


gate.defjvp(lambda primals, tangents: (gate(*primals), 7 * tangents[0]))


@jax.custom_vjp
def dense(x: jax.Array, w: jax.Array) -> jax.Array:
    return x @ w


dense.defvjp(lambda x, w: (x @ w, (x, w)), lambda kept, d: (d @ kept[1].T, kept[0].T @ d))


def test_a_derivative_of_the_users_own_is_kept() -> None:
    x = filled(BETWEEN, 1, 1)
    assert float(compiled(in_bfloat16(lambda x: gate(rounded(x)).sum()))(x)) == 1.0
    assert float(compiled(jax.grad(in_bfloat16(lambda x: gate(rounded(x)).sum())))(x)[0, 0]) == 7.0


@pytest.mark.parametrize("wrapped", [dense, jax.jit(dense), jax.checkpoint(dense)])
def test_products_inside_such_a_function_are_refused_by_name(wrapped: Any) -> None:
    need = "precision must be float32 for this model, but is bfloat16: its function dense has a derivative of its own"
    with pytest.raises(ArgumentError, match=need):
        in_bfloat16(wrapped)(ONE, ONE)


def test_what_asks_for_more_precision_is_refused() -> None:
    with jax.default_matmul_precision("highest"), pytest.raises(ArgumentError, match="precision must be float32 while"):
        in_bfloat16(rounded)(ONE)
    with jax.enable_x64(True), pytest.raises(ArgumentError, match="precision must be float32 for a model in float64"):
        in_bfloat16(rounded)(jnp.ones((1, 1), jnp.float64))
