import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.tasks import lstm_kernel
from fedloom.tasks.lstm import models_backward, models_forward
from fedloom.tasks.lstm_kernel import Tiling, backward, fits, forward

ALONE = Tiling(width=64, depth=32, warps=8)  # a block has all hidden units: nobody waits


def drawn(m: int, times: int, rows: int, hidden: int, dtype: jnp.dtype = jnp.float32) -> list[jax.Array]:
    """What is given, biases, weights, and gradients from above."""
    rng = np.random.default_rng(0)
    shapes = (m, times, rows, 4 * hidden), (m, 4 * hidden), (m, hidden, 4 * hidden), (m, times, rows, hidden)
    given, b, w, d = (jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes)
    return [given, b, w / np.sqrt(hidden).astype(dtype), d]


@pytest.mark.parametrize("rows", [5, 68, 150])
def test_it_is_what_the_loop_finds(rows: int) -> None:
    """With fewer rows than a block of threads has, more than the smaller, and those of two blocks."""
    given, b, w, d = drawn(2, 4, rows, 64)
    wanted = jax.jit(models_forward)(given, b, w)
    found = forward(given, b, w, ALONE, interpret=True)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    dz = backward(d, *wanted[1:], w, ALONE, interpret=True)
    np.testing.assert_allclose(dz, jax.jit(models_backward)(d, *wanted[1:], w), rtol=1e-4, atol=1e-5)


def test_in_bfloat16_it_is_nearly_that() -> None:
    given, b, w, d = drawn(1, 12, 10, 64, jnp.dtype(jnp.bfloat16))
    h, c, opened = jax.jit(models_forward)(given, b, w)
    found = forward(given, b, w, ALONE, interpret=True)
    assert {a.dtype for a in found} == {jnp.dtype(jnp.bfloat16)}
    for one, other in zip(found, (h, c, opened), strict=True):
        assert apart(one, other) < 0.01
    dz = backward(d, c, opened, w, ALONE, interpret=True)
    assert apart(dz, jax.jit(models_backward)(d, c, opened, w)) < 0.01


def apart(a: jax.Array, b: jax.Array) -> float:
    a, b = a.astype(jnp.float32), b.astype(jnp.float32)
    return float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b))


def test_it_is_for_what_it_was_measured_on(monkeypatch: pytest.MonkeyPatch) -> None:
    w = jnp.zeros((256, 1024), jnp.bfloat16)
    assert not fits(w, 50, lstm_kernel.AHEAD)  # not on a CPU

    class Hopper:
        compute_capability = "9.0"

    monkeypatch.setattr(jax, "devices", lambda: [Hopper()])
    assert fits(w, 50, lstm_kernel.AHEAD)
    assert fits(w, 68, lstm_kernel.AHEAD)
    assert not fits(w, 10, lstm_kernel.AHEAD)  # where XLA's loop is as fast, or faster
    assert not fits(w, 68, lstm_kernel.BACK)
    assert not fits(w.astype(jnp.float32), 50, lstm_kernel.AHEAD)
    assert not fits(jnp.zeros((80, 320), jnp.bfloat16), 50, lstm_kernel.AHEAD)  # no whole number of parts


@pytest.mark.skipif(
    getattr(jax.devices()[0], "compute_capability", None) != lstm_kernel.HOPPER, reason="no H100 or H200 here"
)
@pytest.mark.parametrize(("m", "rows"), [(3, 10), (40, 50), (122, 68)])
def test_blocks_that_wait_for_each_other_find_the_same(m: int, rows: int) -> None:
    """More blocks than an H200 has room for, too; and every time the same."""
    given, b, w, d = drawn(m, 80, rows, 256, jnp.dtype(jnp.bfloat16))
    h, c, opened = jax.jit(models_forward)(given, b, w)
    found, again = (jax.jit(forward)(given, b, w) for _ in range(2))
    for one, other, wanted in zip(found, again, (h, c, opened), strict=True):
        assert bool((one == other).all())
        assert apart(one, wanted) < 0.01
    if lstm_kernel.block_rows(rows) in lstm_kernel.BACK:
        assert apart(jax.jit(backward)(d, c, opened, w), jax.jit(models_backward)(d, c, opened, w)) < 0.01
