"""Interrupt: Ctrl-C, or whoever ends programs, asks a run to stop where it can go on later."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C (or SIGTERM, by which a scheduler ends programs) asks to stop at the next evaluation,
    and says so; the second stops at once.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def ask(*_: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        print("\nstopping at the next evaluation; Ctrl-C again stops at once", file=sys.stderr, flush=True)

    former = {one: signal.signal(one, ask) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)
