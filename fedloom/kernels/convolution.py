"""Convolution: the kernels as functions that JAX can differentiate and map over models.

Images are (channels, height, width, batch); the order of the weights' axes is part of the shape.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax

from fedloom.kernels.call import call
from fedloom.kernels.models import for_each_model
from fedloom.kernels.shape import Shape

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Images = Float[Array, "c h w n"]
    Weights = Float[Array, "a b c d"]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def convolve(shape: Shape, x: Images, w: Weights) -> Images:
    """Return the convolution of images with a kernel."""
    return for_each_model(partial(_forward, shape), x, w)


def _forward(shape: Shape, x: Images, w: Weights) -> Images:
    return call("forward", shape, (shape.channels[1], *shape.output, shape.batch), x, w)


def _image_gradient(shape: Shape, d: Images, w: Weights) -> Images:
    return call("image_gradient", shape, (shape.channels[0], *shape.image, shape.batch), d, w)


def _weight_gradient(shape: Shape, d: Images, x: Images) -> Weights:
    return call("weight_gradient", shape, shape.weights, d, x)


def _with_residuals(shape: Shape, x: Images, w: Weights) -> tuple[Images, tuple[Images, Weights]]:
    return convolve(shape, x, w), (x, w)


def _gradients(shape: Shape, residuals: tuple[Images, Weights], d: Images) -> tuple[Images, Weights]:
    x, w = residuals
    dx = for_each_model(partial(_image_gradient, shape), d, w)
    return dx, for_each_model(partial(_weight_gradient, shape), d, x)


convolve.defvjp(_with_residuals, _gradients)
