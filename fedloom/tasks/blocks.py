"""Blocks: a 5 × 5 convolution of pixels is a 3 × 3 convolution of blocks of 2 × 2 pixels.

A block of an image's rows 2p, 2p+1 needs the rows 2p-2 … 2p+3, which are three blocks, and no others. With four times
the channels on both sides, that keeps a GPU's matrix units busy, and a patch about four pixels is 36 pixels, where four
patches about one are 100.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import jax.numpy as jnp

from fedloom.tasks.convolution import Convolution

if TYPE_CHECKING:
    from jaxtyping import Array, Float


def fit(how: Convolution, x: Float[Array, "batch … i"], w: Float[Array, "… i o"]) -> bool:
    """Whether it is a 5 × 5 convolution that keeps the size of images of even sides."""
    plain = replace(how, padding=(), precision=None, result=None) == Convolution(
        (1, 1), (), (1, 1), (1, 1), 1, 1, None, None
    )
    even = x.ndim == 4 and x.shape[1] % 2 == x.shape[2] % 2 == 0
    return plain and even and w.shape[:2] == (5, 5) and tuple(map(tuple, how.padding)) == ((2, 2), (2, 2))


def of_blocks(how: Convolution) -> Convolution:
    """The convolution of blocks."""
    return replace(how, padding=((1, 1), (1, 1)))


def blocks(x: Float[Array, "batch 2h 2w c"]) -> Float[Array, "batch h w 4c"]:
    """An image's blocks."""
    b, h, w, c = x.shape
    return x.reshape(b, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 2, 4, 5).reshape(b, h // 2, w // 2, 4 * c)


def pixels(x: Float[Array, "batch h w 4c"]) -> Float[Array, "batch 2h 2w c"]:
    """The pixels of blocks."""
    b, h, w, c = x.shape
    return x.reshape(b, h, w, 2, 2, c // 4).transpose(0, 1, 3, 2, 4, 5).reshape(b, 2 * h, 2 * w, c // 4)


def kernel(w: Float[Array, "5 5 i o"]) -> Float[Array, "3 3 4i 4o"]:
    """The weights by which blocks give blocks: pixel a of a block hears pixel t of six with the weight w[t - a]."""
    *_, i, o = w.shape
    each = [[jnp.pad(w, ((a, 1 - a), (b, 1 - b), (0, 0), (0, 0))) for b in (0, 1)] for a in (0, 1)]
    whole = jnp.stack([jnp.stack(row) for row in each]).reshape(2, 2, 3, 2, 3, 2, i, o)
    return whole.transpose(2, 4, 3, 5, 6, 0, 1, 7).reshape(3, 3, 4 * i, 4 * o)
