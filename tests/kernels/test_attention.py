"""The kernels of attention against JAX's attention in float64."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.kernels.processor import reason

if reason():
    pytest.skip(reason(), allow_module_level=True)

from fedloom.kernels.attention import attend


def with_gradients(function: Any, q: Any, k: Any, v: Any, d: Any) -> tuple[Any, ...]:
    """Return the result and the gradients of queries, keys and values; d is the result's gradient."""
    found, pull = jax.vjp(function, q, k, v)
    return (found, *pull(d))


def arrays(batch: int, queries: int, keys: int, heads: int, depth: int) -> list[np.ndarray]:
    """Return random queries, keys and values and a gradient of the result."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((batch, n, heads, depth), np.float32) for n in (queries, keys, keys, queries)]


@pytest.mark.parametrize(
    ("sizes", "is_causal"),
    [((2, 1, 1, 1, 1), True), ((2, 5, 7, 3, 4), False), ((1, 70, 70, 2, 20), True), ((1, 130, 37, 1, 33), False),
     ((1, 9, 20, 2, 16), True), ((1, 20, 9, 2, 16), True)],
)  # fmt: skip
def test_result_and_gradients(sizes: tuple[int, int, int, int, int], is_causal: bool) -> None:
    """Queries and keys that fill blocks and vectors or do not."""
    given = arrays(*sizes)
    plain = partial(jax.nn.dot_product_attention, scale=0.4, is_causal=is_causal, implementation="xla")
    with jax.enable_x64(True):
        exact = with_gradients(plain, *(jnp.asarray(a.astype(float)) for a in given))
    for found, expected in zip(with_gradients(partial(attend, 0.4, is_causal), *given), exact, strict=True):
        assert np.abs(np.asarray(found) - np.asarray(expected)).max() <= 5e-6


def test_several_models() -> None:
    """Mapped over models it is the same as one model after another."""
    given = [np.stack([a, a + 0.5]) for a in arrays(2, 5, 6, 2, 3)]
    both = partial(with_gradients, partial(attend, 1.0, False))
    for found, *each in zip(jax.vmap(both)(*given), *(both(*(a[i] for a in given)) for i in (0, 1)), strict=True):
        assert np.array_equal(found, np.stack(each))


def test_large_logits_and_nan() -> None:
    """Large logits do not overflow; a query that is no number makes its own result none, and no other's."""
    q, k, v, _ = arrays(1, 3, 4, 1, 2)
    assert np.isfinite(attend(1e4, False, q, k, v)).all()
    q[0, 1] = np.nan
    assert np.isnan(attend(1.0, False, q, k, v)).any((0, 2, 3)).tolist() == [False, True, False]
