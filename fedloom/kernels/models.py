"""Models: functions of one model's arrays that ``vmap`` calls once for each model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax.numpy as jnp

from fedloom.kernels.by_model import by_model

if TYPE_CHECKING:
    from jaxtyping import Array


def for_each_model(function: Callable[..., Array], *arrays: Array) -> Array:
    """Return the function of the arrays; under ``vmap``, one call for each model instead of one with another axis."""

    def every(*stacked: Array) -> Array:
        return jnp.stack([function(*one) for one in zip(*stacked, strict=True)])

    return by_model(every)(*(a[None] for a in arrays))[0]
