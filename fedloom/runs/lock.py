"""Lock: who works in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from fedloom.errors import CheckpointError, warn

NAME = ".lock"
HELD: ContextVar[frozenset[Path]] = ContextVar("HELD", default=frozenset())


@contextmanager
def alone(folder: Path, who: str = "run") -> Iterator[None]:
    """Inside, nobody else works in this folder, which is made if need be; a :class:`CheckpointError` if somebody does.
    Whoever is inside may enter again. A process that ends, however it does, is out.
    """
    place = folder.resolve()
    if place in HELD.get():
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        file = (folder / NAME).open("a")
    except PermissionError as error:
        raise CheckpointError(f"{folder} cannot be written to ({error.strerror})") from None
    with file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"another {who} works in {folder}: wait until it is over, or choose another folder"
            raise CheckpointError(text) from None
        except (ImportError, OSError) as error:  # not on Windows, nor on some network drives
            warn(f"{folder} cannot be locked ({error}): let nothing else work there")
        token = HELD.set(HELD.get() | {place})
        try:
            yield
        finally:
            HELD.reset(token)


def is_held(folder: Path) -> bool:
    """Whether somebody works in this folder."""
    import fcntl

    try:
        with (folder / NAME).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no lock, or there can be none
        return False
    return False
