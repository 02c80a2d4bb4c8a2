"""GELU as one operation: where it is used, and the numbers of JAX's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.kernels.processor import reason
from fedloom.tasks.forms import fast
from fedloom.tasks.gelu import by_jax, calls_of_gelu

X = jnp.linspace(-3, 3, 20).reshape(4, 5)


def traced(x: jax.Array) -> str:
    """Return the operations of JAX's GELU inside the context."""
    with calls_of_gelu():
        return str(jax.make_jaxpr(jax.nn.gelu)(x))


@pytest.mark.skipif(bool(reason()), reason="kernels cannot be used here")
def test_only_float32_is_one_operation() -> None:
    """Other types are left to JAX, and outside the context everything is."""
    assert "gelu" in traced(X)
    assert "tanh" in traced(X.astype(jnp.bfloat16))
    assert jax.nn.gelu is by_jax


@pytest.mark.parametrize("approximate", [False, True])
def test_numbers_of_jax(approximate: bool) -> None:
    """The result, its gradient, and both mapped over models."""

    def loss(x: jax.Array) -> jax.Array:
        with calls_of_gelu():
            return jnp.sin(fast(lambda x: jax.nn.gelu(x, approximate=approximate))(x)).sum()

    plain = lambda x: jnp.sin(by_jax(x, approximate)).sum()  # noqa: E731
    np.testing.assert_allclose(loss(X), plain(X), rtol=1e-5)
    np.testing.assert_allclose(jax.grad(loss)(X), jax.grad(plain)(X), atol=2e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(loss))(X), jax.grad(plain)(X), atol=2e-6)
