"""By model: functions that compute for several models at once, however many times ``vmap`` is applied to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

if TYPE_CHECKING:
    from jaxtyping import Array

T = TypeVar("T")


def by_model(function: Callable[..., T]) -> Callable[..., T]:
    """A function of arrays whose first axis is that of models, as it is of what comes out; ``vmap`` makes it longer.

    Left to itself, ``vmap`` turns what one model does into something more general, and often slower: a convolution into
    one with groups, a place in memory that all models write at into a scatter.
    """
    whole = custom_vmap(lambda *arrays: function(*arrays))  # which does not see what else it could be given

    def longer(size: int, mapped: list[bool], *arrays: Array) -> tuple[T, T]:
        every = [a if m else jnp.broadcast_to(a, (size, *a.shape)) for a, m in zip(arrays, mapped, strict=True)]
        found = whole(*(a.reshape(-1, *a.shape[2:]) for a in every))
        apart: T = jax.tree.map(lambda y: y.reshape(size, -1, *y.shape[1:]), found)
        return apart, jax.tree.map(lambda y: True, found)  # noqa: ARG005

    whole.def_vmap(longer)
    called: Callable[..., T] = whole
    return called
