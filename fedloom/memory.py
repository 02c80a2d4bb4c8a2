"""Memory: what the C library does with memory that a computation has freed.

XLA allocates the arrays between a program's operations anew for every round, and glibc returns blocks of that size to
the system at once. The system then clears each page again when it is first written, which takes a third of a round with
few and large steps.
"""

from __future__ import annotations

import ctypes
import os
import sys

TRIM_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -4, -8
"""Options of glibc's ``mallopt``."""
LARGEST = 2**31 - 1
OWN = ("MALLOC_", "GLIBC_TUNABLES")
"""How environment variables begin by which users set these options themselves."""


def keep_freed() -> bool:
    """Ask glibc to keep freed memory, up to 2 GB, for the next round; return True if it does.

    Nothing changes with another C library, or if a user has set options of glibc's allocator.
    """
    if sys.platform != "linux" or any(name.startswith(OWN) for name in os.environ):
        return False
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    if option is None:
        return False
    return all([option(MMAP_MAX, 0), option(TRIM_THRESHOLD, LARGEST), option(ARENA_MAX, 1)])
