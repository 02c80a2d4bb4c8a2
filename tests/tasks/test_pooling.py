"""Max-pooling against ``lax.reduce_window``: values and gradients."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fedloom.tasks.pooling import Window, largest

WINDOWS = {
    "halved": ((2, 6, 6, 3), Window((1, 2, 2, 1), (1, 2, 2, 1), ((0, 0),) * 4)),
    "overlapping": ((2, 7, 7, 3), Window((1, 3, 3, 1), (1, 2, 2, 1), ((0, 0),) * 4)),
    "padded": ((2, 6, 5, 3), Window((1, 3, 2, 1), (1, 2, 1, 1), ((0, 0), (1, 1), (0, 1), (0, 0)))),
    "channels first": ((2, 3, 6, 6), Window((1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))),
    "with gaps": ((2, 8, 3), Window((1, 2, 1), (1, 3, 1), ((0, 0),) * 3)),
}


def reference(window: Window, x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, window.sizes, window.strides, window.padding)


@pytest.mark.parametrize("case", WINDOWS)
def test_values_and_gradients_with_ties_and_without(case: str) -> None:
    shape, window = WINDOWS[case]
    rng = np.random.default_rng(0)
    smooth = rng.normal(size=shape).astype(np.float32)
    d = rng.normal(size=jax.eval_shape(partial(reference, window), smooth).shape).astype(np.float32)

    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def both(x: jax.Array) -> Any:
        found = [jax.vjp(partial(way, window), x) for way in (reference, largest)]
        return [(y, back(d)[0]) for y, back in found]

    for x in (smooth, np.round(smooth), np.zeros_like(smooth)):
        (wanted, slope), (found, mine) = both(x)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_allclose(mine, slope, rtol=1e-6, atol=1e-6)


def test_of_equal_values_the_first_takes_the_gradient() -> None:
    window = Window((2,), (1,), ((0, 0),))
    y, back = jax.vjp(partial(largest, window), jnp.array([1.0, 3.0, 3.0, 2.0]))
    assert y.tolist() == [3, 3, 3]
    assert back(jnp.array([1.0, 10.0, 100.0]))[0].tolist() == [0, 11, 100, 0]
