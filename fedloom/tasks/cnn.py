"""CNN: two convolutions and a dense layer (McMahan et al. 2017, section 3)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import jax

from fedloom.tasks.classification import as_float, classification
from fedloom.tasks.layers import convolve_halve, dense, glorot
from fedloom.tasks.task import Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Key, PyTree


@cache
def cnn(size: int = 28, channels: int = 1, classes: int = 10) -> Task:
    """Two 5 × 5 convolutions of 32 and 64 channels, each with 2 × 2 pooling, then 512 ReLU units; 1,663,370 parameters
    as it stands.

    >>> from fedloom.trees import count
    >>> count(cnn().init(jax.random.key(0)).params)
    1663370
    """

    def init(key: Key[Array, ""]) -> Variables:
        k1, k2, k3, k4 = jax.random.split(key, 4)
        layers = {
            "convolution1": glorot(k1, 5, 5, channels, 32),
            "convolution2": glorot(k2, 5, 5, 32, 64),
            "hidden": glorot(k3, (size // 4) ** 2 * 64, 512),
            "output": glorot(k4, 512, classes),
        }
        return Variables(layers, {})

    def apply(variables: Variables, x: Array, key: Key[Array, ""] | None) -> tuple[Array, PyTree]:  # noqa: ARG001
        layers = variables.params
        h = as_float(x).reshape(len(x), size, size, channels)
        h = jax.nn.relu(convolve_halve(layers["convolution1"], h))
        h = jax.nn.relu(convolve_halve(layers["convolution2"], h))
        h = jax.nn.relu(dense(layers["hidden"], h.reshape(len(x), (size // 4) ** 2 * 64)))
        return dense(layers["output"], h), variables.state

    return classification("cnn", init, apply, classes)
