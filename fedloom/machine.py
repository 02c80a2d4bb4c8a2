"""Machine: the cores of this machine and the devices that JAX computes on."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache

import jax

from fedloom.errors import warn
from fedloom.memory import keep_freed
from fedloom.settings import cache_folder


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def devices() -> tuple[jax.Device, ...]:
    """Return the devices to compute on: every accelerator, or every CPU core as a device of its own.

    One single-threaded lane a core beats one lane over all cores, so each core is shown to JAX as a device, unless the
    user has said how many (``jax_num_cpu_devices``). JAX takes that setting only before its first computation; when it
    comes too late, fedloom computes on the devices that JAX has.
    """
    _remember_compilations()
    if jax.config.values["jax_platforms"] in (None, "", "cpu"):
        keep_freed()
    if jax.config.values["jax_num_cpu_devices"] < 0:
        with suppress(RuntimeError):  # JAX has computed something already
            jax.config.update("jax_num_cpu_devices", cores())
    return tuple(jax.devices())


@cache
def warn_of_idle_cores() -> None:
    """Warn if JAX does not use every core because fedloom asked too late."""
    found = devices()
    if jax.config.values["jax_num_cpu_devices"] < 0 and found[0].platform == "cpu" and len(found) < cores():
        warn(
            f"JAX was running on {len(found)} CPU device(s) before fedloom could ask for {cores()}: "
            "call fedloom.engines.compiled() before any other JAX computation to use every core"
        )


def _remember_compilations() -> None:
    """Keep compiled programs on disk, unless the user has said where or that not."""
    if jax.config.values["jax_compilation_cache_dir"] is None and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder("xla")))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
