"""Collective: what devices do together inside a compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

import fedloom.engines.devices as machine
from fedloom.engines.plan import Plan

if TYPE_CHECKING:
    from jaxtyping import Array, Bool

T = TypeVar("T")


def together(plan: Plan, mine: T) -> T:
    """Return all devices' arrays (X, m, …) one after the other, along the axis of clients."""
    return lax.all_gather(mine, machine.AXIS, axis=1, tiled=True) if plan.mesh.size > 1 else mine


def added(plan: Plan, mine: T) -> T:
    """Return the sum of all devices' arrays."""
    return lax.psum(mine, machine.AXIS) if plan.mesh.size > 1 else mine


def on_first(plan: Plan, known: T) -> T:
    """Return arrays that all devices know on the first device, and zeros on the others, which are added up later."""
    if plan.mesh.size == 1:
        return known
    first = lax.axis_index(machine.AXIS) == 0
    return jax.tree.map(lambda a: jnp.where(first, a, jnp.zeros_like(a)), known)


def sometimes(now: Bool[Array, ""], make: Callable[[], T]) -> T:
    """Return the result of a function if the condition holds, and zeros like it otherwise."""
    nothing = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(make))
    return lax.cond(now, make, lambda: nothing)
