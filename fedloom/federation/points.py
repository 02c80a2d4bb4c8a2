"""Points: the moments at which a crash is worth trying. Tests reach them by name; otherwise nothing happens there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

Reach = Callable[[str], None]
"""Called with the name of a moment when it comes."""
VARIABLE = "FEDLOOM_CRASH"  # name, or name@n: the process kills itself at the n-th time that it comes there


def nothing(name: str) -> None:
    """No crash."""


def from_environment() -> Reach:
    """What the environment asks for: a crash without any farewell, as ``kill -9``, or nothing."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return nothing
    name, _, times = wanted.partition("@")
    left = [int(times or 1)]

    def reach(reached: str) -> None:
        if reached == name:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return reach
