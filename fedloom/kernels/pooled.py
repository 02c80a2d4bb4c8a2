"""Pooled: the largest value of every window, by kernels, as a function that JAX can differentiate and map over models.

Images are (channels, height, width, batch); the shape has as many groups as channels.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax

from fedloom.kernels.call import call, call_for
from fedloom.kernels.models import for_each_model
from fedloom.kernels.shape import Shape

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Images = Float[Array, "c h w n"]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def pooled(shape: Shape, x: Images) -> Images:
    """Return the largest value of every window; of several, the first takes the gradient."""
    return _forward(shape, x)[0]


def _forward(shape: Shape, x: Images) -> tuple[Images, Images]:
    size = (shape.channels[1], *shape.output, shape.batch)
    found: list[Images] = for_each_model(lambda x: call_for("pool", shape, [size, size], x), x)
    return found[0], found[1]


def _gradient(shape: Shape, places: Images, d: Images) -> tuple[Images]:
    size = (shape.channels[0], *shape.image, shape.batch)
    return (for_each_model(partial(call, "spread", shape, size), d, places),)


pooled.defvjp(_forward, _gradient)
