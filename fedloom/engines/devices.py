"""Devices: what this process computes on, and how data gets there."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fedloom.errors import warn
from fedloom.settings import cache_folder

if TYPE_CHECKING:
    from jaxtyping import Array, PyTree

AXIS = "devices"
ALIGNMENT = 64  # bytes; XLA's CPU backend takes a NumPy array so aligned as it is, without a copy


def cores() -> int:
    """How many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def devices() -> tuple[jax.Device, ...]:
    """The devices to compute on: every accelerator, or every CPU core as a device of its own.

    One single-threaded lane a core beats one lane over all cores, so each core is shown to JAX as a device, unless the
    user has said how many (``jax_num_cpu_devices``). JAX takes that setting only before its first computation; when it
    comes too late fedloom says so and uses one core's worth.
    """
    _remember_compilations()
    if jax.config.values["jax_num_cpu_devices"] >= 0:
        return tuple(jax.devices())
    try:
        jax.config.update("jax_num_cpu_devices", cores())
    except RuntimeError:
        if jax.default_backend() == "cpu" and len(jax.devices()) < cores():
            warn(
                f"JAX was running on {len(jax.devices())} CPU device(s) before fedloom could ask for {cores()}: "
                "call fedloom.engines.compiled() before any other JAX computation to use every core"
            )
    return tuple(jax.devices())


def _remember_compilations() -> None:
    """Keep compiled programs on disk, unless the user has said where or that not."""
    if jax.config.values["jax_compilation_cache_dir"] is None and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder("xla")))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


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
