"""CNN: two convolutions and a dense layer (McMahan et al. 2017, section 3)."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.tasks.classification import classification
from fedloom.tasks.image_layers import ImageLayers, chosen, for_kernels
from fedloom.tasks.inputs import as_float
from fedloom.tasks.layers import batch_norm, cut_normal, dense, glorot, halve, plus, same
from fedloom.tasks.task import Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Key, PyTree


@cache
def cnn(size: int = 28, channels: int = 1, classes: int = 10, normalised: bool = False, plain: bool = False) -> Task:
    """Return the task of a CNN: two 5 × 5 convolutions of 32 and 64 channels, each with 2 × 2 pooling, then 512 ReLU
    units. It has 1,663,370 parameters with the default arguments.

    Arguments:
        size: of the images, which are square.
        channels: of the images.
        classes: which the images belong to.
        normalised: whether batch normalisation follows each convolution.
        plain: whether weights begin as in TensorFlow's MNIST tutorial of 2016, of which the network is a variant: with
            a deviation of 0.1 and biases of 0.1, however many inputs there are.

    >>> from fedloom.trees import count
    >>> count(cnn().init(jax.random.key(0)).params)
    1663370
    """

    def init(key: Key[Array, ""]) -> Variables:
        k1, k2, k3, k4 = jax.random.split(key, 4)
        drawn = partial(cut_normal, deviation=0.1, bias=0.1) if plain else glorot
        layers = {
            "convolution1": drawn(k1, 5, 5, channels, 32),
            "convolution2": drawn(k2, 5, 5, 32, 64),
            "hidden": drawn(k3, (size // 4) ** 2 * 64, 512),
            "output": drawn(k4, 512, classes),
        }
        if not normalised:
            return Variables(layers, {})
        norms = {"norm1": 32, "norm2": 64}
        layers |= {name: {"scale": jnp.ones(c), "shift": jnp.zeros(c)} for name, c in norms.items()}
        return Variables(layers, {name: {"mean": jnp.zeros(c), "variance": jnp.ones(c)} for name, c in norms.items()})

    def network(
        images: ImageLayers, variables: Variables, x: Array, key: Key[Array, ""] | None
    ) -> tuple[Array, PyTree]:
        layers, state = variables.params, dict(variables.state)
        h = as_float(x).reshape(len(x), size, size, channels)
        for i in ("1", "2"):
            weights = layers[f"convolution{i}"]
            h = images.convolve(h.astype(weights["w"].dtype), weights["w"])
            h = plus(images.pool(h), weights["b"])  # after pooling: the same, and four times less work
            if normalised:
                h, state[f"norm{i}"] = batch_norm(layers[f"norm{i}"], state[f"norm{i}"], h, key is not None)
            h = jax.nn.relu(h)
        h = jax.nn.relu(dense(layers["hidden"], h.reshape(len(x), (size // 4) ** 2 * 64)))
        return dense(layers["output"], h), state

    apply = chosen(network, ImageLayers(same, halve), for_kernels(2))
    return classification("cnn" + "-bn" * normalised + "-plain" * plain, init, apply, classes)
