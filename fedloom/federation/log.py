"""Log: what happens on a server or a participant, one JSON object a line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

Log = Callable[..., None]
"""Told of an event by its name, and what is to be said of it."""


def silent(event: str, **fields: Any) -> None:
    """A log that says nothing."""


def lines(*files: IO[str]) -> Log:
    """A log that writes lines of JSON to files.

    >>> import sys
    >>> lines(sys.stdout)("came", name="clinic-a")  # doctest: +ELLIPSIS
    {"time": ..., "event": "came", "name": "clinic-a"}
    """

    def tell(event: str, **fields: Any) -> None:
        line = json.dumps({"time": round(time.time(), 3), "event": event, **fields}, default=str, ensure_ascii=False)
        for file in files:
            print(line, file=file, flush=True)

    return tell


def several(*logs: Log) -> Log:
    """All of these; one that cannot be written, on a full disk or to a reader that has gone, stops nothing."""

    def tell(event: str, **fields: Any) -> None:
        for log in logs:
            with suppress(OSError):
                log(event, **fields)

    return tell
