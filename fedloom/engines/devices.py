"""Devices: what this process computes on, and how data gets there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fedloom.machine import cores, devices

if TYPE_CHECKING:
    from jaxtyping import Array, PyTree

__all__ = ["ALIGNMENT", "AXIS", "aligned", "cores", "devices", "mesh", "on_each", "place"]
AXIS = "devices"
ALIGNMENT = 64  # bytes; XLA's CPU backend takes a NumPy array so aligned as it is, without a copy


def mesh(chosen: tuple[jax.Device, ...]) -> Mesh:
    """The chosen devices in a row."""
    return Mesh(np.array(chosen), (AXIS,))


def place(tree: PyTree, where: Mesh) -> PyTree:
    """The same arrays on every device. On CPUs that costs no memory: all devices read the one NumPy array."""
    sharding = NamedSharding(where, PartitionSpec())

    def put(array: np.ndarray | Array) -> Array:
        return jax.device_put(aligned(array) if isinstance(array, np.ndarray) else array, sharding)

    return jax.tree.map(put, tree)


def on_each(where: Mesh, function: Callable[..., Any], *split: PartitionSpec) -> Callable[..., Any]:
    """The function on every device at once, each with its part of the arguments, whose results are the same everywhere;
    the function itself where there is one device.
    """
    if where.size == 1:
        return function
    return jax.shard_map(function, mesh=where, in_specs=split, out_specs=PartitionSpec(), check_vma=False)


def shared_out(where: Mesh, many: int, work: Callable[[Array], PyTree]) -> PyTree:
    """The results of work on numbers below many, along axis 1: inside :func:`on_each` each device works on its share of
    them, and all learn what the others found.
    """
    if where.size == 1:
        return work(jnp.arange(many))
    share = -(-many // where.size)
    mine = lax.axis_index(AXIS) * share + jnp.arange(share)
    found = lax.all_gather(work(jnp.minimum(mine, many - 1)), AXIS, axis=1, tiled=True)
    return jax.tree.map(lambda a: a[:, :many], found)


def aligned(array: np.ndarray) -> np.ndarray:
    """The array itself if it starts where XLA wants it and is contiguous, else a copy that does."""
    if array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0:
        return array
    room = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def memory(device: jax.Device) -> int:
    """How many bytes the device may hold: its own memory, or for a CPU the machine's."""
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
