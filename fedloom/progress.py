"""Progress: a bar on the terminal for work that takes long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import BinaryIO, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn, track, wrap_file

T = TypeVar("T")


def tracked(things: Iterable[T], total: int, text: str) -> Iterable[T]:
    """The same things, with a bar that moves as they are taken. Only where somebody looks: on a terminal."""
    console = Console(stderr=True)
    return track(things, text, total=total, console=console, disable=not sys.stderr.isatty(), transient=True)


@contextmanager
def amount(total: int | None, text: str) -> Iterator[Callable[[int], None]]:
    """Inside, a function that moves a bar by so many bytes (or other units)."""
    columns = (TextColumn(text), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        line = progress.add_task(text, total=total)
        yield lambda n: progress.advance(line, n)


def watched(file: BinaryIO, total: int, text: str | None) -> AbstractContextManager[BinaryIO]:
    """The same file, with a bar that moves as it is read, if there is a text to show and somebody who looks."""
    if text is None or not sys.stderr.isatty():
        return nullcontext(file)
    return wrap_file(file, total, description=text, console=Console(stderr=True), transient=True)
