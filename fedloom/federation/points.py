"""Points: the moments at which a crash is worth trying. Tests reach them by name; otherwise nothing happens there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

Reach = Callable[[str], None]
"""Called with the name of a moment when it comes."""
CRASH = "FEDLOOM_CRASH"  # name, or name@n: the process kills itself at the n-th time that it comes there
POINTS = "FEDLOOM_POINTS"  # a file, which gets the name of every moment as it comes


def nothing(name: str) -> None:
    """No crash."""


def from_environment() -> Reach:
    """What the environment asks for: a crash without any farewell, as ``kill -9``; a list of moments; or nothing."""
    if wanted := os.environ.get(CRASH):
        return crash(wanted)
    if file := os.environ.get(POINTS):
        return listed(Path(file))
    return nothing


def crash(wanted: str) -> Reach:
    """A crash at a moment: its name, or ``name@n``."""
    name, _, times = wanted.partition("@")
    left = [int(times or 1)]

    def reach(reached: str) -> None:
        if reached == name:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return reach


def listed(file: Path) -> Reach:
    """Nothing happens, but every moment leaves its name in a file."""

    def reach(reached: str) -> None:
        with file.open("a", encoding="utf-8") as lines:
            print(reached, file=lines)

    return reach
