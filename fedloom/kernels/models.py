"""Models: functions of one model's arrays that ``vmap`` calls once for each model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp

from fedloom.kernels.by_model import by_model

if TYPE_CHECKING:
    from jaxtyping import Array

T = TypeVar("T")


def for_each_model(function: Callable[..., T], *arrays: Array) -> T:
    """Return the function of the arrays; under ``vmap``, one call for each model instead of one with another axis."""

    def every(*stacked: Array) -> T:
        found = [function(*one) for one in zip(*stacked, strict=True)]
        together: T = jax.tree.map(lambda *each: jnp.stack(each), *found)
        return together

    first: T = jax.tree.map(lambda found: found[0], by_model(every)(*(a[None] for a in arrays)))
    return first
