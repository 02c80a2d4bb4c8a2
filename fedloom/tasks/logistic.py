"""Multinomial logistic regression."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from fedloom.tasks.classification import classification
from fedloom.tasks.inputs import as_float
from fedloom.tasks.layers import dense, glorot
from fedloom.tasks.task import Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Key, PyTree


@cache
def logistic(inputs: int = 784, classes: int = 10) -> Task:
    """softmax(x·W + b); 7,850 parameters as it stands.

    >>> import jax
    >>> from fedloom.trees import count
    >>> count(logistic().init(jax.random.key(0)).params)
    7850
    """

    def init(key: Key[Array, ""]) -> Variables:
        return Variables({"output": glorot(key, inputs, classes)}, {})

    def apply(variables: Variables, x: Array, key: Key[Array, ""] | None) -> tuple[Array, PyTree]:  # noqa: ARG001
        flat = as_float(x).reshape(len(x), int(np.prod(x.shape[1:])))
        return dense(variables.params["output"], flat), variables.state

    return classification("logistic", init, apply, classes)
