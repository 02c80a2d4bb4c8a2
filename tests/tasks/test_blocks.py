"""Convolutions of blocks against those of pixels."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.tasks.blocks import blocks, fit, kernel, pixels
from fedloom.tasks.convolution import Convolution
from fedloom.tasks.convolve import by_blocks, fastest

SAME = Convolution((1, 1), ((2, 2), (2, 2)), (1, 1), (1, 1), 1, 1, None, None)


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def test_a_block_is_four_pixels_row_by_row() -> None:
    image = jnp.arange(16).reshape(1, 4, 4, 1)
    assert blocks(image)[0].tolist() == [[[0, 1, 4, 5], [2, 3, 6, 7]], [[8, 9, 12, 13], [10, 11, 14, 15]]]
    several = drawn(2, 6, 4, 3)
    assert np.array_equal(pixels(blocks(several)), several)


def test_every_pixel_of_a_block_has_the_whole_kernel() -> None:
    w = drawn(5, 5, 2, 3)
    whole = np.asarray(kernel(w)).reshape(3, 3, 2, 2, 2, 2, 2, 3)  # block, pixel within it, input; pixel, output
    for a, b in np.ndindex(2, 2):
        six = whole[..., a, b, :].transpose(0, 2, 1, 3, 4, 5).reshape(6, 6, 2, 3)
        assert np.array_equal(six[a : a + 5, b : b + 5], w)
        assert np.count_nonzero(six) == w.size


@pytest.mark.parametrize("models", [(), (3,)])
def test_outputs_and_gradients_are_those_of_pixels(models: tuple[int, ...]) -> None:
    x, w, d = drawn(*models, 2, 6, 8, 3), drawn(*models, 5, 5, 3, 4), drawn(*models, 2, 6, 8, 4)

    def both(x: jax.Array, w: jax.Array, d: jax.Array) -> Any:
        pulled = [jax.vjp(way, x, w) for way in (SAME.plain, partial(by_blocks, SAME))]
        return [(y, *back(d)) for y, back in pulled]

    for wanted, found in zip(*jax.jit(jax.vmap(both) if models else both)(x, w, d), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())


def test_only_what_fits_is_done_by_blocks() -> None:
    x, w = drawn(2, 6, 8, 3), drawn(5, 5, 3, 4)
    assert fit(SAME, x, w)
    assert fit(replace(SAME, padding=[(2, 2), [2, 2]]), x, w)  # type: ignore[arg-type]
    for other in ({"strides": (2, 1)}, {"padding": ((2, 2), (1, 2))}, {"dilation": (1, 2)}, {"spread": (2, 1)}):
        assert not fit(replace(SAME, **other), x, w), other
    assert not fit(replace(SAME, groups=3), x, drawn(5, 5, 1, 3))
    assert not fit(SAME, drawn(2, 7, 8, 3), w)
    assert not fit(SAME, drawn(2, 6, 7, 3), w)
    assert not fit(SAME, x, drawn(5, 3, 3, 4))
    assert not fit(Convolution((1,), ((2, 2),), (1,), (1,), 1, 1, None, None), drawn(2, 6, 3), drawn(5, 3, 4))


def test_an_accelerator_gets_blocks_and_a_cpu_does_not() -> None:
    x, w = drawn(2, 6, 8, 3), drawn(5, 5, 3, 4)
    lowered = lambda platform: (  # noqa: E731
        jax.jit(partial(fastest, SAME)).trace(x, w).lower(lowering_platforms=(platform,)).as_text()
    )
    assert "3x3x12x16xf32" in lowered("cuda")
    assert "3x3x12x16xf32" not in lowered("cpu")
