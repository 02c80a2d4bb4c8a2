"""Convolution: the kernels as functions that JAX can differentiate and map over models.

Images are (channels, height, width, batch), with the batch a multiple of the vector width; kernels are (height, width,
input channels of a group, output channels).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.kernels.compiler import target
from fedloom.kernels.models import for_each_model
from fedloom.kernels.processor import width
from fedloom.kernels.shape import Shape

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Images = Float[Array, "c h w n"]
    Weights = Float[Array, "kh kw i o"]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def convolve(shape: Shape, x: Images, w: Weights) -> Images:
    """Return the convolution of images with a kernel."""
    return for_each_model(partial(_forward, shape), x, w)


def _forward(shape: Shape, x: Images, w: Weights) -> Images:
    (kh, kw), g = shape.kernel, shape.groups
    weights = w.reshape(kh, kw, shape.inputs, g, shape.outputs).transpose(3, 0, 2, 1, 4)
    return _call("forward", shape, (shape.channels[1], *shape.output, shape.batch), x, weights)


def _image_gradient(shape: Shape, d: Images, w: Weights) -> Images:
    (kh, kw), g = shape.kernel, shape.groups
    weights = w.reshape(kh, kw, shape.inputs, g, shape.outputs).transpose(3, 0, 4, 1, 2)
    return _call("image_gradient", shape, (shape.channels[0], *shape.image, shape.batch), d, weights)


def _weight_gradient(shape: Shape, d: Images, x: Images) -> Weights:
    (kh, kw), g = shape.kernel, shape.groups
    lanes = _call("weight_gradient", shape, (g, kh, shape.inputs, kw, shape.outputs, width()), d, x)
    return lanes.sum(-1).transpose(1, 3, 2, 0, 4).reshape(kh, kw, shape.inputs, shape.channels[1])


def _call(kind: str, shape: Shape, size: tuple[int, ...], *arrays: Array) -> Array:
    call = jax.ffi.ffi_call(target(kind, shape), jax.ShapeDtypeStruct(size, jnp.float32))
    found: Array = call(*arrays)
    return found


def _with_residuals(shape: Shape, x: Images, w: Weights) -> tuple[Images, tuple[Images, Weights]]:
    return convolve(shape, x, w), (x, w)


def _gradients(shape: Shape, residuals: tuple[Images, Weights], d: Images) -> tuple[Images, Weights]:
    x, w = residuals
    dx = for_each_model(partial(_image_gradient, shape), d, w)
    return dx, for_each_model(partial(_weight_gradient, shape), d, x)


convolve.defvjp(_with_residuals, _gradients)
