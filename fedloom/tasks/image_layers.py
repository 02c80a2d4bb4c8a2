"""Image layers: the convolution and the pooling of a built-in network, in the two forms that it chooses from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

import fedloom.kernels.processor as processor
from fedloom.machine import devices
from fedloom.tasks.forms import fast

if TYPE_CHECKING:
    from jaxtyping import Array, PyTree

ORDER = ("NHWC", "HWIO", "NHWC")


@dataclass(frozen=True)
class ImageLayers:
    """What a network does with images.

    Arguments:
        convolve: images and weights → images of the same size.
        pool: images → images of half the size.
        settled: images → the same, whose gradient is computed before anything uses it, where that is faster.
    """

    convolve: Callable[[Array, Array], Array]
    pool: Callable[[Array], Array]
    settled: Callable[[Array], Array] = lambda x: x


def largest(size: int, beyond: int, x: Array) -> Array:
    """Return the largest value of size × size pixels at every second pixel.

    Arguments:
        beyond: how many rows and columns the last windows reach beyond the image.
    """
    padding = ((0, 0), (0, beyond), (0, beyond), (0, 0))
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, 2, 2, 1), padding)


def for_kernels(size: int, beyond: int = 0) -> ImageLayers:
    """Return layers in JAX's own operations, which kernels take the place of (:func:`fedloom.tasks.forms.fast`)."""
    convolve = partial(lax.conv_general_dilated, window_strides=(1, 1), padding="SAME", dimension_numbers=ORDER)
    return ImageLayers(convolve, partial(largest, size, beyond))


def chosen(network: Callable[..., PyTree], own: ImageLayers, for_kernels: ImageLayers) -> Callable[..., PyTree]:
    """Return a network with kernels where there are some, for weights in float32 on a CPU, else with its own layers.

    Arguments:
        network: (layers, weights, images, …) → its outputs.
    """
    with_kernels, without = fast(partial(network, for_kernels)), partial(network, own)

    def apply(weights: PyTree, *others: Any) -> PyTree:
        single = all(a.dtype == jnp.float32 for a in jax.tree.leaves(weights))
        here = single and devices()[0].platform == "cpu" and processor.width() > 0
        return (with_kernels if here else without)(weights, *others)

    return apply
