"""Computed: arrays that are certainly in memory, and not computed again and again inside a fused loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import lax

if TYPE_CHECKING:
    from jaxtyping import Array, Bool


def computed(broken: Bool[Array, ""], *arrays: Array) -> tuple[Array, ...]:
    """The same arrays, in memory, on a CPU.

    XLA's CPU backend drops an optimisation barrier before it fuses; a loop that never turns it must keep. It turns once
    if what they hold is broken, which a compiler cannot rule out, and must leave it broken.
    """
    return lax.fori_loop(0, broken.astype(jnp.int32), lambda _, kept: tuple(array + 1 for array in kept), arrays)
