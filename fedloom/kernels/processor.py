"""Processor: the SIMD width that generated kernels use, and whether they are used at all."""

from __future__ import annotations

import importlib.util
import os
from functools import cache

SWITCH = "FEDLOOM_KERNELS"
"""Environment variable: 0 turns kernels off, ``avx2`` leaves AVX-512 unused."""
WIDTHS = {"avx512f": 16, "avx2": 8}
"""Feature of a processor → the number of float32 values in one of its registers."""


@cache
def features() -> tuple[str, ...]:
    """Return the features of this processor that LLVM may use, each with + or -."""
    import llvmlite.binding as llvm

    narrow = os.environ.get(SWITCH, "").lower() == "avx2"
    wide = ("avx512", "avx10", "amx", "evex")
    found = llvm.get_host_cpu_features()
    return tuple(
        ("+" if on and not (narrow and name.startswith(wide)) else "-") + name for name, on in sorted(found.items())
    )


@cache
def name() -> str:
    """Return LLVM's name of this processor."""
    import llvmlite.binding as llvm

    found: str = llvm.get_host_cpu_name()
    return found


@cache
def width() -> int:
    """Return the number of float32 values in a register that kernels use; 0 if kernels cannot be used."""
    return 0 if reason() else next(w for feature, w in WIDTHS.items() if f"+{feature}" in features())


@cache
def reason() -> str:
    """Return why kernels cannot be used here, or an empty string."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH} is 0"
    if importlib.util.find_spec("llvmlite") is None:
        return "llvmlite is not installed (pip install 'fedloom[fast]')"
    if not any(f"+{feature}" in features() for feature in WIDTHS):
        return f"the processor {name()} has neither AVX2 nor AVX-512"
    from fedloom.kernels.interface import unsupported

    return unsupported()
