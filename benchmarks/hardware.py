"""The hardware that timings were taken on, in words."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path


def cores() -> int:
    """How many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu() -> str:
    """The processor's name and the number of cores."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {cores()} cores"


def gpu() -> str | None:
    """The first GPU's name; nothing where there is none."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    return found[0].strip() if found else None


def slug(name: str) -> str:
    """The name as a part of a file name.

    >>> slug("AMD EPYC, 2 cores")
    'amd-epyc-2-cores'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
