"""Log: what happens on a server or a participant, one JSON object a line."""

from __future__ import annotations

import json
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

Log = Callable[..., None]
"""Told of an event by its name, and what is to be said of it."""
FREELY, REFILL = 20, 5.0  # lines of one event about one participant; seconds until there may be one more
SPARED = ("came", "left", "turned away", "trouble")  # what somebody can make happen as often as it likes
KNOWN = 10_000  # events about participants that are remembered


def silent(event: str, **fields: Any) -> None:
    """A log that says nothing."""


def lines(*files: IO[str]) -> Log:
    """A log that writes lines of JSON to files.

    >>> import sys
    >>> lines(sys.stdout)("came", name="clinic-a")  # doctest: +ELLIPSIS
    {"time": ..., "event": "came", "name": "clinic-a"}
    """

    def tell(event: str, **fields: Any) -> None:
        line = json.dumps({"time": round(time.time(), 3), "event": event, **fields}, default=str)
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


def sparing(log: Log, clock: Callable[[], float] = time.monotonic) -> Log:
    """The same without the lines by which somebody could fill a disk: of one event about one participant there are
    twenty at once, and one more every five seconds, which says in ``unsaid`` how many there were in between.

    >>> told = []
    >>> log = sparing(lambda event, **fields: told.append(fields), clock=lambda: 0.0)
    >>> for _ in range(1000):
    ...     log("came", name="clinic-a")
    >>> len(told)
    20
    """
    seen: OrderedDict[tuple[str, Any], tuple[float, int]] = OrderedDict()

    def tell(event: str, **fields: Any) -> None:
        if event not in SPARED or "name" not in fields:
            return log(event, **fields)
        key, now = (event, fields["name"]), clock()
        due, unsaid = seen.pop(key, (-math.inf, 0))
        due = max(due, now - FREELY * REFILL)
        if due + REFILL > now:
            seen[key] = due, unsaid + 1
            return None
        seen[key] = due + REFILL, 0
        if len(seen) > KNOWN:
            seen.popitem(last=False)
        return log(event, **fields, **({"unsaid": unsaid} if unsaid else {}))

    return tell


def printable(text: str) -> str:
    r"""A text of somebody else's as a terminal may show it.

    >>> printable("red: \x1b[31m")
    'red: \\x1b[31m'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
