from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fedloom.tasks.layers import SMALL, batch_norm, dense, fused, halve, same

KEYS = jax.random.split(jax.random.key(0), 3)


def reference(x: jax.Array, w: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@pytest.mark.parametrize("kernel", [(5, 5), (3, 5), (1, 1)])
def test_the_convolution_that_keeps_the_size_and_its_gradients(kernel: tuple[int, int]) -> None:
    x = jax.random.normal(KEYS[0], (3, 8, 6, 4))
    w = jax.random.normal(KEYS[1], (*kernel, 4, 7))
    d = jax.random.normal(KEYS[2], (3, 8, 6, 7))
    wanted, back = jax.vjp(reference, x, w)
    got, mine = jax.vjp(same, x, w)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    for a, b in zip(mine(d), back(d), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_halve_takes_the_largest_of_four_and_sends_its_gradient_back() -> None:
    x = jnp.array([[1.0, 5.0], [2.0, 3.0]]).reshape(1, 2, 2, 1)
    y, back = jax.vjp(halve, x)
    assert y.ravel().tolist() == [5]
    assert back(jnp.full((1, 1, 1, 1), 8.0))[0].ravel().tolist() == [0, 8, 0, 0]


def test_halve_shares_the_gradient_of_equal_pixels() -> None:
    _, back = jax.vjp(halve, jnp.zeros((1, 2, 2, 1)))
    assert back(jnp.full((1, 1, 1, 1), 8.0))[0].ravel().tolist() == [2, 2, 2, 2]


def test_halve_agrees_with_reduce_window() -> None:
    x = jax.random.normal(KEYS[0], (2, 8, 8, 3))
    wanted = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")  # noqa: E731
    np.testing.assert_array_equal(halve(x), wanted(x))
    d = jax.random.normal(KEYS[1], (2, 4, 4, 3))
    np.testing.assert_allclose(jax.vjp(halve, x)[1](d)[0], jax.vjp(wanted, x)[1](d)[0])


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("batch", [1, 10, SMALL])
def test_the_fused_product_and_its_gradients(batch: int, transposed: bool) -> None:
    matrix = (5, 7) if transposed else (7, 5)
    x, w, d = (jax.random.normal(k, s) for k, s in zip(KEYS, [(batch, 7), matrix, (batch, 5)], strict=True))
    wanted, back = jax.vjp(lambda x, w: x @ (w.T if transposed else w), x, w)
    got, mine = jax.jit(lambda x, w: jax.vjp(partial(fused, transposed), x, w))(x, w)
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    for a, b in zip(mine(d), back(d), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("transposed", [False, True])
def test_the_fused_products_gradient_is_summed_in_float32(transposed: bool) -> None:
    draw = lambda key, *shape: jax.random.normal(key, shape, jnp.bfloat16)  # noqa: E731
    x, w, d = draw(KEYS[0], 16, 5), draw(KEYS[1], *((4, 5) if transposed else (5, 4))), draw(KEYS[2], 16, 4)
    _, dw = jax.vjp(partial(fused, transposed), x, w)[1](d)
    rows, columns = (np.asarray(a, np.float64) for a in ((d, x) if transposed else (x, d)))
    wanted = jnp.asarray(rows.T @ columns, jnp.float32).astype(jnp.bfloat16)
    np.testing.assert_array_equal(np.asarray(dw), np.asarray(wanted))


def test_nan_stays_nan_through_the_fused_product() -> None:
    _, back = jax.vjp(partial(fused, False), jnp.ones((2, 3)), jnp.ones((3, 4)))
    dx, dw = back(jnp.full((2, 4), jnp.nan))
    assert jnp.isnan(dx).all()
    assert jnp.isnan(dw).all()


@pytest.mark.parametrize("batch", [3, SMALL + 1])
def test_dense_is_the_matrix_product_for_every_batch(batch: int) -> None:
    layer = {"w": jax.random.normal(KEYS[0], (4, 2)), "b": jnp.array([1.0, 2.0])}
    x = jax.random.normal(KEYS[1], (batch, 4))
    np.testing.assert_allclose(dense(layer, x), x @ layer["w"] + layer["b"], rtol=1e-6)


def test_batch_norm_far_from_zero_is_that_of_float64_and_moves_its_statistics() -> None:
    x = jax.random.normal(KEYS[0], (3, 5, 7, 2)) + 1000
    layer, before = {"scale": jnp.array([2.0, 1.0]), "shift": jnp.array([0.0, 3.0])}, {"mean": 1.0, "variance": 2.0}
    before = {name: jnp.full(2, value) for name, value in before.items()}
    y, after = jax.jit(batch_norm, static_argnums=3)(layer, before, x, True)
    wide = np.asarray(x, np.float64)
    mean, variance = wide.mean((0, 1, 2)), wide.var((0, 1, 2))
    np.testing.assert_allclose(y, (wide - mean) / np.sqrt(variance + 1e-5) * [2, 1] + [0, 3], atol=2e-6)
    np.testing.assert_allclose(after["mean"], 0.9 + 0.1 * mean, rtol=1e-6)
    np.testing.assert_allclose(after["variance"], 1.8 + 0.1 * variance, rtol=1e-6)
    tested, same = batch_norm(layer, before, x[:1], False)
    assert same is before
    np.testing.assert_allclose(tested, (wide[:1] - 1) / np.sqrt(2 + 1e-5) * [2, 1] + [0, 3], rtol=1e-5)
