"""Convolve: any convolution that JAX has (strides, padding, dilation, groups, one to three dimensions, any order of
axes), in the form that is fast where it is compiled for, its gradients too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import fedloom.tasks.blocks as blocks
import fedloom.tasks.patches as patches
from fedloom.kernels.by_model import by_model
from fedloom.tasks.convolution import Convolution, ordered
from fedloom.tasks.rewriting import rewritten

if TYPE_CHECKING:
    from jaxtyping import Array, Float


BUSY = 128  # images from which one model's convolution keeps a GPU busy
FEW = 8  # channels up to which patches are small
WRITTEN_OUT = 100  # models up to which their convolutions are written out one by one: a loop copies what each reads


def convolve(x: Array, w: Array, params: dict[str, Any]) -> Array:
    """What ``lax.conv_general_dilated_p`` gives with these parameters."""
    how, (images, weights, found) = ordered(params)
    x, w = x.transpose(images), w.transpose(weights)
    return fastest(how, x, w).transpose(np.argsort(found))


def fastest(how: Convolution, x: Float[Array, "batch … i"], w: Float[Array, "… i o"]) -> Float[Array, "batch … o"]:
    """In the form that is fast where it is compiled for."""
    patched = how.batch_groups == 1 and jnp.issubdtype(x.dtype, jnp.floating) and how.result in (None, x.dtype)
    form = by_blocks if blocks.fit(how, x, w) else apart
    default = partial(form, how) if patched else how.plain
    return lax.platform_dependent(x, w, cpu=partial(direct, how), default=default)


def by_blocks(how: Convolution, x: Float[Array, "batch h w i"], w: Float[Array, "5 5 i o"]) -> Float[Array, "…"]:
    """A 5 × 5 convolution as one of blocks of 2 × 2 pixels."""
    return blocks.pixels(apart(blocks.of_blocks(how), blocks.blocks(x), blocks.kernel(w)))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def direct(how: Convolution, x: Float[Array, "batch … i"], w: Float[Array, "… i o"]) -> Float[Array, "batch … o"]:
    """By ``lax.conv_general_dilated``, its gradients too, all three in the one order of axes that XLA's CPU backend has
    a fast kernel for. Outside a loop XLA brings a gradient's convolution into that order by itself; inside a loop it
    does not, and runs it twelve times slower.
    """
    return how.plain(x, w)


def _direct_forward(how: Convolution, x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return how.plain(x, w), (x, w)


def _direct_backward(how: Convolution, residuals: tuple[Array, Array], d: Array) -> tuple[Array, Array]:
    """JAX's own gradients, which are convolutions too, brought into order."""
    x, w = residuals
    pull = lambda x, w, d: jax.vjp(how.plain, x, w)[1](d)  # noqa: E731
    dx, dw = rewritten(pull, {"conv_general_dilated": lambda e, x, w: in_order(x, w, e.params)})(x, w, d)
    return dx, dw


direct.defvjp(_direct_forward, _direct_backward)


def in_order(x: Array, w: Array, params: dict[str, Any]) -> Array:
    """What ``lax.conv_general_dilated_p`` gives with these parameters, computed in our order of axes."""
    how, (images, weights, found) = ordered(params)
    return how.plain(x.transpose(images), w.transpose(weights)).transpose(np.argsort(found))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def apart(how: Convolution, x: Float[Array, "batch … i"], w: Float[Array, "… i o"]) -> Float[Array, "batch … o"]:
    """With weights that may differ by client, under ``vmap``, which would make a grouped convolution of them: slow on a
    GPU.
    """
    return by_model(partial(outputs, how))(x[None], w[None])[0]


def _apart_forward(how: Convolution, x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return apart(how, x, w), (x, w)


def _apart_backward(how: Convolution, residuals: tuple[Array, Array], d: Array) -> tuple[Array, Array]:
    x, w = residuals
    dx = by_model(partial(image_gradients, how, x.shape[1:-1]))(w[None], d[None])[0]
    dw = by_model(partial(weight_gradients, how, w.shape[:-2]))(x[None], d[None])[0]
    return dx, dw


apart.defvjp(_apart_forward, _apart_backward)


def outputs(how: Convolution, x: Float[Array, "m batch … i"], w: Float[Array, "m … i o"]) -> Array:
    """Every model's outputs."""
    return one_by_one(how.plain)(x, w) if is_busy(x, x.shape[-1]) else patches.outputs(how, x, w)


def image_gradients(
    how: Convolution, sizes: tuple[int, ...], w: Float[Array, "m … i o"], d: Float[Array, "m batch … o"]
) -> Array:
    """Those for every model's images, which have those sizes."""
    inputs = how.groups * w.shape[-2]
    if not is_busy(d, inputs):
        return patches.image_gradients(how, sizes, w, d)
    images = jax.ShapeDtypeStruct((d.shape[1], *sizes, inputs), d.dtype)
    return one_by_one(lambda w, d: jax.linear_transpose(lambda x: how.plain(x, w), images)(d)[0])(w, d)


def weight_gradients(
    how: Convolution, kernel: tuple[int, ...], x: Float[Array, "m batch … i"], d: Float[Array, "m batch … o"]
) -> Array:
    """Those for every model's weights, of a kernel of that size."""
    if not is_busy(x, x.shape[-1]):
        return patches.weight_gradients(how, kernel, x, d)
    weights = jax.ShapeDtypeStruct((*kernel, x.shape[-1] // how.groups, d.shape[-1]), d.dtype)
    return one_by_one(lambda x, d: jax.linear_transpose(lambda w: how.plain(x, w), weights)(d)[0])(x, d)


def is_busy(images: Float[Array, "m batch …"], channels: int) -> bool:
    """Whether one model's convolution keeps a GPU busy, or there is but one; with few channels patches are faster."""
    models, batch = images.shape[:2]
    return (models == 1 or batch >= BUSY) and channels >= FEW


def one_by_one(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """The function of one model after another; of very many, in equal parts."""

    def some(a: Array, b: Array) -> Array:
        return jnp.stack([function(*each) for each in zip(a, b, strict=True)])

    def every(a: Array, b: Array) -> Array:
        many = max(k for k in range(1, WRITTEN_OUT + 1) if len(a) % k == 0)
        if many == len(a):
            return some(a, b)
        each = [a.reshape(-1, many, *a.shape[1:]), b.reshape(-1, many, *b.shape[1:])]
        parts = lax.map(lambda part: some(*part), each)
        return parts.reshape(-1, *parts.shape[2:])

    return every
