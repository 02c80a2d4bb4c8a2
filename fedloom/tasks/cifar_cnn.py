"""CIFAR CNN: the network of TensorFlow's CIFAR-10 tutorial of 2016, which McMahan et al. (2017, section 3) trained.

Two 5 × 5 convolutions of 64 channels, each with overlapping 3 × 3 pooling and local response normalisation, dense
layers of 384 and 192, softmax. Training sees random 24 × 24 crops, flipped at random, with random brightness and
contrast, whitened; testing sees the middle, whitened.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedloom.tasks.blocks import pixels
from fedloom.tasks.image_layers import ImageLayers, chosen, for_kernels
from fedloom.tasks.layers import bit, cut_normal, dense, kept, marked, plus, same, settled
from fedloom.tasks.objective import cross_entropy
from fedloom.tasks.summed import summed
from fedloom.tasks.task import Batch, Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Key, PyTree, UInt8

CROP = 24
BRIGHTER, CONTRAST = 63.0, (0.2, 1.8)
DECAY = 0.004  # of the dense layers' weights: the loss has 0.004 · ‖W‖²/2 of each


@cache
def cifar_cnn(classes: int = 10) -> Task:
    """Return the task of the tutorial's network, which has 1,068,298 parameters with ten classes.

    >>> from fedloom.trees import count
    >>> count(cifar_cnn().init(jax.random.key(0)).params)
    1068298
    """

    def init(key: Key[Array, ""]) -> Variables:
        k = jax.random.split(key, 5)
        flat = (CROP // 4) ** 2 * 64
        layers = {
            "convolution1": cut_normal(k[0], 5, 5, 3, 64, deviation=0.05, bias=0.0),
            "convolution2": cut_normal(k[1], 5, 5, 64, 64, deviation=0.05, bias=0.1),
            "dense1": cut_normal(k[2], flat, 384, deviation=0.04, bias=0.1),
            "dense2": cut_normal(k[3], 384, 192, deviation=0.04, bias=0.1),
            "output": cut_normal(k[4], 192, classes, deviation=1 / 192, bias=0.0),
        }
        return Variables(layers, {})

    def network(images: ImageLayers, params: PyTree, x: Float[Array, "batch 24 24 3"]) -> Float[Array, "batch classes"]:
        first, second = params["convolution1"], params["convolution2"]
        h = plus(images.pool(images.convolve(x.astype(first["w"].dtype), first["w"])), first["b"])
        h = images.settled(normalised(images.settled(jax.nn.relu(h))))
        h = images.settled(plus(images.convolve(h, second["w"]), second["b"]))
        h = images.settled(images.pool(images.settled(normalised(jax.nn.relu(h)))))
        h = jax.nn.relu(dense(params["dense1"], h.reshape(len(x), -1)))
        h = jax.nn.relu(dense(params["dense2"], h))
        return dense(params["output"], h)

    logits = chosen(network, ImageLayers(same, pool, settled), for_kernels(3, beyond=1))

    def loss(variables: Variables, batch: Batch, key: Key[Array, ""]) -> tuple[Float[Array, " batch"], PyTree]:
        params = variables.params
        seen = jax.vmap(distorted)(batch["x"], jax.random.split(key, len(batch["x"])))
        decay = sum(jnp.sum(params[name]["w"] ** 2) for name in ("dense1", "dense2"))
        return cross_entropy(logits(params, seen), batch["y"]) + DECAY / 2 * decay, variables.state

    def metrics(variables: Variables, batch: Batch) -> dict[str, Float[Array, " batch"]]:
        found = logits(variables.params, jax.vmap(middle)(batch["x"]))
        losses = cross_entropy(found, batch["y"])
        correct = (jnp.argmax(found, axis=-1) == batch["y"]).astype(jnp.float32)
        return {"loss": losses, "accuracy": correct, "count": jnp.ones_like(losses)}

    return Task("cifar-cnn", init, loss, metrics, classes)


@jax.custom_vjp
def pool(x: Float[Array, "batch h w c"]) -> Float[Array, "batch h/2 w/2 c"]:
    """The largest value of 3 × 3 pixels at every second pixel of an image of even sides, whose last row and column have
    none beyond them. Pixels that share the largest value share its gradient, which needs not the pixels, but which of
    nine was the largest.
    """
    found, *others = windows(x)
    for other in others:
        found = jnp.maximum(found, other)
    return found


def windows(x: Float[Array, "batch h w c"]) -> list[Float[Array, "batch h/2 w/2 c"]]:
    """For each of nine places in a window, what stands there in all windows."""
    padded = jnp.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)), constant_values=-jnp.inf)
    h, w = x.shape[1:3]
    return [padded[:, i : i + h : 2, j : j + w : 2] for i in range(3) for j in range(3)]


def _pool_forward(x: Array) -> tuple[Array, Array]:
    y = pool(x)
    return kept(y, marked(windows(x), y, jnp.uint16))


def _pool_backward(which: Array, d: Array) -> tuple[Array]:
    """An odd row is in the middle of one window; an even one is at the beginning of one, and the end of that before."""
    h, w = d.shape[1:3]
    share = d / lax.population_count(which).astype(d.dtype)
    places = {0: ((0, 0), (1, 2)), 1: ((0, 1),)}  # row, even or odd → how many windows before, and where in that

    def earlier(a: Array, rows: int, columns: int) -> Array:
        return jnp.pad(a, ((0, 0), (rows, 0), (columns, 0), (0, 0)))[:, :h, :w]

    def given(row: int, column: int) -> Array:
        """To the pixels of such rows and columns."""
        total = jnp.zeros_like(d)
        for (up, i), (left, j) in product(places[row], places[column]):
            total += bit(earlier(which, up, left), 3 * i + j, d.dtype) * earlier(share, up, left)
        return total

    four = jnp.stack([given(row, column) for row in (0, 1) for column in (0, 1)], axis=3)
    return (pixels(four.reshape(*d.shape[:3], -1)),)


pool.defvjp(_pool_forward, _pool_backward)


def normalised(x: Float[Array, "batch h w c"]) -> Float[Array, "batch h w c"]:
    """Local response normalisation (Krizhevsky et al. 2012): x / (1 + α·Σ x²)^β over nine neighbouring channels."""
    c = x.shape[-1]
    near = (np.abs(np.arange(c)[:, None] - np.arange(c)) <= 4).astype(x.dtype)
    around = jnp.matmul(x * x, near, preferred_element_type=summed(x))
    return x * ((1 + (0.001 / 9) * around) ** -0.75).astype(x.dtype)


def distorted(image: UInt8[Array, "32 32 3"], key: Key[Array, ""]) -> Float[Array, "24 24 3"]:
    """A random crop, flipped at random, of random brightness and contrast, whitened."""
    where, flip, bright, sharp = jax.random.split(key, 4)
    spare = image.shape[0] - CROP + 1
    corner = jax.random.randint(where, (2,), 0, spare)
    x = lax.dynamic_slice(image, (corner[0], corner[1], 0), (CROP, CROP, 3)).astype(jnp.float32)
    x = jnp.where(jax.random.bernoulli(flip), x[:, ::-1], x)
    x = x + jax.random.uniform(bright, (), minval=-BRIGHTER, maxval=BRIGHTER)
    mean = x.mean(axis=(0, 1))
    x = (x - mean) * jax.random.uniform(sharp, (), minval=CONTRAST[0], maxval=CONTRAST[1]) + mean
    return whitened(x)


def middle(image: UInt8[Array, "32 32 3"]) -> Float[Array, "24 24 3"]:
    """The middle of an image, whitened."""
    edge = (image.shape[0] - CROP) // 2
    return whitened(image[edge : edge + CROP, edge : edge + CROP].astype(jnp.float32))


def whitened(x: Float[Array, "24 24 3"]) -> Float[Array, "24 24 3"]:
    """(x - mean) / max(deviation, 1/√n) of all n numbers of an image."""
    return (x - x.mean()) / jnp.maximum(x.std(), 1 / np.sqrt(x.size))
