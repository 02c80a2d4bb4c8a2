"""A description of the machine and the libraries on which the bits of a run depend."""

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import hurry

PACKAGES = ("jax", "jaxlib", "optax", "numpy", "llvmlite")
VECTORS = re.compile(r"sse|avx|fma|f16c|amx|asimd|sve|bf16")  # instructions that change how numbers are rounded


def machine() -> dict[str, str]:
    """Return the processor, its vector instructions, the libraries and XLA's flags."""
    found = {name: value.strip() for name, _, value in (line.partition(":") for line in processor())}
    names = {name.strip(): value for name, value in found.items()}
    features = (names.get("flags") or names.get("Features") or "").split()
    return {
        "processor": f"{names.get('model name', platform.processor())}, family {names.get('cpu family', 'unknown')}, "
        f"model {names.get('model', 'unknown')}",
        "vector instructions": " ".join(sorted(filter(VECTORS.search, features))),
        "libraries": ", ".join(f"{name} {installed(name)}" for name in PACKAGES),
        "flags": os.environ.get("XLA_FLAGS", hurry.FLAGS),
    }


def processor() -> list[str]:
    """Return the lines that describe the first processor; none where the system has no such file."""
    file = Path("/proc/cpuinfo")
    return file.read_text().split("\n\n")[0].splitlines() if file.exists() else []


def installed(package: str) -> str:
    """Return the version of a package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"
