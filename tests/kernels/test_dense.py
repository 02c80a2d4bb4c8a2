"""The kernel of a dense layer's weight gradient against products in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedloom.kernels.processor import reason

if reason():
    pytest.skip(reason(), allow_module_level=True)

from fedloom.kernels.dense import multiply, transposed_product

SIZES = st.integers(1, 80)


def test_small_numbers() -> None:
    """Sums that are worked out by hand."""
    a, b = jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([[1.0, 0.0, 5.0], [0.0, 1.0, 1.0]])
    assert transposed_product(a, b).tolist() == [[1.0, 3.0, 8.0], [2.0, 4.0, 14.0]]


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(SIZES, st.sampled_from([256, 300, 515])), SIZES, SIZES)
def test_any_sizes(inner: int, rows: int, columns: int) -> None:
    """Rows, columns and places that fill blocks, tiles and vectors or do not."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((inner, rows), np.float32), rng.standard_normal((inner, columns), np.float32)
    exact = a.astype(float).T @ b
    assert np.abs(np.asarray(transposed_product(a, b)) - exact).max() <= 1e-6 * max(1.0, inner**0.5) * 4


def test_gradients_for_several_models() -> None:
    """Both orders of the weights' axes, mapped over models: JAX's gradients."""
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((2, 30, 20), np.float32), rng.standard_normal((2, 20, 17), np.float32)
    for transposed in (False, True):
        v = w.swapaxes(1, 2) if transposed else w
        by_kernel = jax.grad(lambda x, w, t=transposed: jnp.sin(multiply(t, x, w)).sum(), (0, 1))
        plain = jax.grad(lambda x, w, t=transposed: jnp.sin(x @ (w.T if t else w)).sum(), (0, 1))
        for found, expected in zip(jax.vmap(by_kernel)(x, v), jax.vmap(plain)(x, v), strict=True):
            np.testing.assert_allclose(found, expected, atol=2e-4)


def test_nan_stays() -> None:
    """A number that is none reaches the sums that it is part of, and no other."""
    found = transposed_product(jnp.array([[jnp.nan, 1.0]]), jnp.ones((1, 3)))
    assert jnp.isnan(found).tolist() == [[True] * 3, [False] * 3]
