"""Coordinates: what devices do together with all replies, each with a share of every reply's coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import Mesh

import fedloom.engines.devices as machine

T = TypeVar("T")


def by_coordinates(mesh: Mesh, combine: Callable[[T], T], updates: T) -> T:
    """What comes of all devices' replies, (X, m, …) on each, where it comes of each coordinate by itself: every device
    is given its share of the coordinates of all replies, and all learn what the others made of theirs.
    """
    if mesh.size == 1:
        return combine(updates)

    def given(u: Array) -> Array:
        flat = u.reshape(*u.shape[:2], -1)
        even = jnp.pad(flat, ((0, 0), (0, 0), (0, -flat.shape[2] % mesh.size)))
        return lax.all_to_all(even, machine.AXIS, split_axis=2, concat_axis=1, tiled=True)

    def learned(found: Array, u: Array) -> Array:
        whole = lax.all_gather(found, machine.AXIS, axis=1, tiled=True)
        shape = u.shape[:1] + u.shape[2:]
        return whole[:, : u[0, 0].size].reshape(shape)

    return jax.tree.map(learned, combine(jax.tree.map(given, updates)), updates)
