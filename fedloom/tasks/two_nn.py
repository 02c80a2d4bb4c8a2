"""2NN: two hidden layers of 200 units (McMahan et al. 2017, section 3)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import jax
import numpy as np

from fedloom.tasks.classification import classification
from fedloom.tasks.inputs import as_float
from fedloom.tasks.layers import dense, glorot
from fedloom.tasks.task import Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Key, PyTree


@cache
def two_nn(inputs: int = 784, hidden: int = 200, classes: int = 10) -> Task:
    """A perceptron with two hidden layers of ReLU units; 199,210 parameters as it stands.

    >>> from fedloom.trees import count
    >>> count(two_nn().init(jax.random.key(0)).params)
    199210
    """

    def init(key: Key[Array, ""]) -> Variables:
        k1, k2, k3 = jax.random.split(key, 3)
        layers = {
            "hidden1": glorot(k1, inputs, hidden),
            "hidden2": glorot(k2, hidden, hidden),
            "output": glorot(k3, hidden, classes),
        }
        return Variables(layers, {})

    def apply(variables: Variables, x: Array, key: Key[Array, ""] | None) -> tuple[Array, PyTree]:  # noqa: ARG001
        layers = variables.params
        h = as_float(x).reshape(len(x), int(np.prod(x.shape[1:])))
        h = jax.nn.relu(dense(layers["hidden1"], h))
        h = jax.nn.relu(dense(layers["hidden2"], h))
        return dense(layers["output"], h), variables.state

    return classification("2nn", init, apply, classes)
