"""Recurrent kernels: values and gradients against the loop of `recurrence.py` in float64, padding, NaN and models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.kernels.processor import reason
from fedloom.tasks.recurrence import STEPS, loop

if reason():
    pytest.skip(reason(), allow_module_level=True)

from fedloom.kernels.recurrent import recurrent

GATES = {"lstm": 4, "gru": 3}


def biases(kind: str, of_x: jax.Array, of_h: jax.Array) -> jax.Array:
    if kind == "lstm":
        return of_x + of_h
    third = 2 * len(of_x) // 3
    return jnp.concatenate([(of_x + of_h)[:third], of_x[third:], of_h[third:]])


def by_kernels(kind, back, batch_first, x, h, c, wi, wh, of_x, of_h):
    first = h if kind == "gru" else c
    return recurrent(kind, x, h, first, wi, wh, biases(kind, of_x, of_h), back, batch_first)


def by_loop(kind, back, batch_first, x, h, c, *weights):
    state = (h,) if kind == "gru" else (h, c)
    out, last = loop(STEPS[kind], jnp.swapaxes(x, 0, 1) if batch_first else x, state, weights, True, back)
    return jnp.swapaxes(out, 0, 1) if batch_first else out, last[-1]


def drawn(kind: str, times: int, batch: int, inputs: int, hidden: int, batch_first: bool) -> list[np.ndarray]:
    rng, wide = np.random.default_rng(0), GATES[kind] * hidden
    order = (batch, times) if batch_first else (times, batch)
    shapes = [(*order, inputs), (batch, hidden), (batch, hidden), (wide, inputs), (wide, hidden), (wide,), (wide,)]
    return [rng.standard_normal(shape).astype(np.float32) / 2 for shape in shapes]


def with_gradients(layer, arrays):
    (out, last), pull = jax.vjp(layer, *arrays)
    return [out, last, *pull((jnp.cos(jnp.arange(out.size, dtype=out.dtype)).reshape(out.shape), last))]


@pytest.mark.parametrize(
    ("kind", "sizes", "back", "batch_first"),
    [
        ("lstm", (5, 7, 3, 32), False, True),
        ("lstm", (3, 2, 17, 5), True, False),
        ("gru", (4, 13, 20, 48), True, True),
        ("gru", (1, 1, 1, 1), False, False),
    ],
)
def test_values_and_gradients_are_those_of_the_loop_in_float64(kind, sizes, back, batch_first) -> None:
    arrays = drawn(kind, *sizes, batch_first)
    found = jax.jit(lambda *a: with_gradients(lambda *b: by_kernels(kind, back, batch_first, *b), a))(*arrays)
    with jax.enable_x64(True):
        wide = [jnp.asarray(a, jnp.float64) for a in arrays]
        wanted = [np.asarray(a) for a in with_gradients(lambda *b: by_loop(kind, back, batch_first, *b), wide)]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * max(1.0, float(abs(b).max())))


@pytest.mark.parametrize("kind", GATES)
def test_nan_stays_in_its_row(kind: str) -> None:
    arrays = drawn(kind, 3, 4, 2, 16, True)
    arrays[0][1, 1] = np.nan
    out = np.asarray(by_kernels(kind, False, True, *arrays)[0])
    assert np.isnan(out[1, 1:]).all()
    assert np.isfinite(out[[0, 2, 3]]).all()
    assert np.isfinite(out[1, 0]).all()


@pytest.mark.parametrize("kind", GATES)
def test_large_sums_saturate(kind: str) -> None:
    x, *others = drawn(kind, 3, 4, 2, 16, True)
    found = with_gradients(lambda x: by_kernels(kind, False, True, x, *others), [x * np.float32(1e30)])
    assert all(np.isfinite(a).all() for a in found[:2])
    assert float(abs(found[0]).max()) <= max(1, abs(others[0]).max())


@pytest.mark.parametrize("kind", GATES)
def test_models_side_by_side_are_each_their_own(kind: str) -> None:
    x, h, c, *weights = drawn(kind, 3, 4, 2, 16, False)
    several = [np.stack([w, -w]) for w in weights]

    def layer(*weights):
        return with_gradients(lambda *w: by_kernels(kind, False, False, x, h, c, *w), weights)

    together = jax.vmap(layer)(*several)
    for i in (0, 1):
        for a, b in zip(together, layer(*(w[i] for w in several)), strict=True):
            assert (a[i] == b).all()
