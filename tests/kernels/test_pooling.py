"""The largest value of every window, and its gradient, against JAX's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fedloom.kernels.processor import reason
from fedloom.kernels.shape import Shape

if reason():
    pytest.skip(reason(), allow_module_level=True)

from fedloom.kernels.pooled import pooled
from fedloom.tasks.pooling import Window, largest

SIZE = st.tuples(st.integers(1, 9), st.integers(1, 9))
PAIR = st.tuples(st.integers(1, 3), st.integers(1, 3))


def shape_of(batch: int, channels: int, image: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int],
             pad: tuple[int, int]) -> Shape:  # fmt: skip
    output = tuple((n + 2 * p - k) // s + 1 for n, p, k, s in zip(image, pad, kernel, strides, strict=True))
    return Shape(batch, (channels, channels), image, kernel, strides, pad, output, groups=channels)  # type: ignore[arg-type]


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 20), st.integers(1, 3), SIZE, PAIR, PAIR, st.booleans())
def test_any_window(
    batch: int, channels: int, image: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int], pads: bool
) -> None:
    """The same numbers; whole numbers, so that several are the largest and sums are exact."""
    pad = (kernel[0] // 2, kernel[1] // 2) if pads else (0, 0)
    shape = shape_of(batch, channels, image, kernel, strides, pad)
    assume(min(shape.output) >= 1)
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.integers(0, 4, (channels, *image, batch)), jnp.float32)
    d = jnp.asarray(rng.integers(-9, 9, (channels, *shape.output, batch)), jnp.float32)
    window = Window((1, *kernel, 1), (1, *strides, 1), ((0, 0), (pad[0], pad[0]), (pad[1], pad[1]), (0, 0)))
    (y, pull), (exact, exact_pull) = jax.vjp(lambda x: pooled(shape, x), x), jax.vjp(lambda x: largest(window, x), x)
    np.testing.assert_array_equal(y, exact)
    np.testing.assert_array_equal(pull(d)[0], exact_pull(d)[0])


def test_not_a_number_stays_so_and_takes_the_gradient() -> None:
    shape = shape_of(1, 1, (2, 4), (2, 2), (2, 2), (0, 0))
    x = jnp.array([[1.0, jnp.nan, 5.0, 6.0], [9.0, 2.0, 8.0, 7.0]])[None, :, :, None]
    y, pull = jax.vjp(lambda x: pooled(shape, x), x)
    assert jnp.isnan(y[0, 0, 0, 0])
    assert y[0, 0, 1, 0] == 8
    assert pull(jnp.array([3.0, 4.0])[None, None, :, None])[0][0, :, :, 0].tolist() == [[0, 3, 0, 0], [0, 0, 4, 0]]


def test_several_models() -> None:
    shape = shape_of(3, 2, (4, 4), (2, 2), (2, 2), (0, 0))
    x = jnp.asarray(np.random.default_rng(0).standard_normal((2, 2, 4, 4, 3)), jnp.float32)
    found = jax.vmap(lambda x: pooled(shape, x))(x)
    for k in range(2):
        np.testing.assert_array_equal(found[k], pooled(shape, x[k]))
