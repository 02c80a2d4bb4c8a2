from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.tasks import lstm_kernel
from fedloom.tasks.lstm import cpu_backward, cpu_forward, cuda_backward, cuda_forward, models_backward, models_forward
from fedloom.tasks.lstm_kernel import AHEAD, BACK, Tiling, backward, fits, forward

ALONE = Tiling(width=64, depth=32, warps=8)  # a block has all hidden units: nobody waits
PARTS = Tiling(width=32, depth=32, warps=4)
HALF = jnp.bfloat16


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """On an accelerator, too, products of float32 are of float32."""
    with jax.default_matmul_precision("highest"):
        yield


def drawn(m: int, times: int, rows: int, hidden: int, dtype: jnp.dtype = jnp.float32) -> list[jax.Array]:
    """What is given, biases, weights, and gradients from above."""
    rng = np.random.default_rng(0)
    shapes = (m, times, rows, 4 * hidden), (m, 4 * hidden), (m, hidden, 4 * hidden), (m, times, rows, hidden)
    given, b, w, d = (jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes)
    return [given, b, w / np.sqrt(hidden).astype(dtype), d]


@pytest.mark.parametrize(("rows", "times", "tiling"), [(68, 3, ALONE), (64, 1, PARTS), (65, 1, PARTS)])
def test_it_is_what_the_loop_finds(rows: int, times: int, tiling: Tiling) -> None:
    """With blocks of 64 and 128 rows, most of which there are or are not; and in parts, which exchange nothing at the
    only time: JAX itself runs one after the other.
    """
    given, b, w, d = drawn(2, times, rows, 64)
    wanted = jax.jit(models_forward)(given, b, w)
    found = forward(given, b, w, tiling, interpret=True)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    dz = backward(d, *wanted[1:], w, tiling, interpret=True)
    np.testing.assert_allclose(dz, jax.jit(models_backward)(d, *wanted[1:], w), rtol=1e-4, atol=1e-5)


def test_a_layer_of_several_models_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(function: Any, *arrays: jax.Array) -> Any:
        calls.append(arrays[0].shape[0])
        return function(*arrays, ALONE, interpret=True)

    monkeypatch.setattr(lstm_kernel, "fits", lambda *_: True)
    monkeypatch.setattr(lstm_kernel, "forward", partial(counted, forward))
    monkeypatch.setattr(lstm_kernel, "backward", partial(counted, backward))
    given, b, w, d = drawn(3, 4, 5, 64)
    found, wanted = (jax.vmap(form, (0, None, 0))(given, b[0], w) for form in (cuda_forward, cpu_forward))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    dz, expected = (jax.vmap(form)(d, *wanted[1:], w) for form in (cuda_backward, cpu_backward))
    np.testing.assert_allclose(dz, expected, rtol=1e-4, atol=1e-5)
    assert 3 in calls


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
    def is_for(rows: int, tilings: dict[int, Tiling], hidden: int = 256, x: Any = HALF, w: Any = HALF) -> bool:
        return fits(jnp.zeros((3, rows, hidden), x), jnp.zeros((hidden, 4 * hidden), w), tilings)

    class Ampere:
        compute_capability = "8.0"

    class Hopper:
        compute_capability = "9.0"

    for other in (jax.devices("cpu")[0], Ampere()):
        monkeypatch.setattr(jax, "devices", lambda other=other: [other])
        assert not is_for(50, AHEAD)
    monkeypatch.setattr(jax, "devices", lambda: [Hopper()])
    assert is_for(50, AHEAD)
    assert is_for(50, BACK)
    assert is_for(68, AHEAD)
    assert not is_for(68, BACK)  # where XLA's loop is as fast, or faster
    assert not is_for(10, AHEAD)
    assert not is_for(129, AHEAD)
    assert not is_for(50, AHEAD, x=jnp.float32)
    assert not is_for(50, AHEAD, w=jnp.float32)
    assert not is_for(50, AHEAD, hidden=80)  # no whole number of parts
    assert not is_for(68, AHEAD, hidden=512)  # no room for a part's weights


@pytest.mark.parametrize(("m", "rows"), [(3, 10), (40, 50), (122, 68)])
def test_blocks_that_wait_for_each_other_find_the_same(m: int, rows: int) -> None:
    """More blocks than an H200 has room for, too; and every time the same."""
    if not lstm_kernel.is_here():
        pytest.skip("no H100 or H200 here")
    given, b, w, d = drawn(m, 80, rows, 256, jnp.dtype(jnp.bfloat16))
    h, c, opened = jax.jit(models_forward)(given, b, w)
    found, again = (jax.jit(forward)(given, b, w) for _ in range(2))
    for one, other, wanted in zip(found, again, (h, c, opened), strict=True):
        assert bool((one == other).all())
        assert apart(one, wanted) < 0.01
    if lstm_kernel.block_rows(rows) in BACK:
        dz, once_more = (jax.jit(backward)(d, c, opened, w) for _ in range(2))
        assert bool((dz == once_more).all())
        assert apart(dz, jax.jit(models_backward)(d, c, opened, w)) < 0.01
