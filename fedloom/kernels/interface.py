"""Interface: the C structures by which XLA calls a kernel (XLA's foreign function interface, ``xla/ffi/api/c_api.h``).

A handler receives a pointer to a call frame. Offsets are in bytes, on 64-bit machines. XLA asks for the version of the
interface by a call whose extension has the type "metadata"; the handler answers with the version that it was written
for, and XLA refuses a version that it does not support.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

KNOWN = {(0, minor) for minor in (1, 2, 3, 4, 5)}
"""Versions (major, minor) whose offsets are those below: jaxlib 0.8 to 0.12."""
EXTENSION = 8
"""Call frame → the first extension, or null."""
METADATA = 24
"""Metadata extension → the metadata that the handler fills."""
MAJOR, MINOR, TRAITS, STATE = 24, 28, 32, 40
"""Metadata → the version of the interface, and traits and the type of a state, which these kernels do not have."""
ARGUMENTS, RESULTS = 72, 112
"""Call frame → the pointers to argument and result buffers."""
DATA = 24
"""Buffer → its numbers."""


@cache
def header() -> str:
    """Return jaxlib's header of the interface."""
    import jax

    return (Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text()


@cache
def version() -> tuple[int, int]:
    """Return the version of the interface of the installed jaxlib, (-1, -1) if its header does not say."""
    major, minor = (re.search(rf"#define XLA_FFI_API_{part} (\d+)", header()) for part in ("MAJOR", "MINOR"))
    return (int(major[1]), int(minor[1])) if major and minor else (-1, -1)


def has_state() -> bool:
    """Return True if the metadata of this version names the type of a handler's state."""
    return "state_type_id" in header()


def unsupported() -> str:
    """Return why kernels do not fit the installed jaxlib, or an empty string."""
    try:
        found = version()
    except (OSError, AttributeError) as error:
        return f"jaxlib's header for foreign functions cannot be read ({error})"
    if found in KNOWN:
        return ""
    return f"jaxlib has version {found[0]}.{found[1]} of the interface for foreign functions, which is not known here"
