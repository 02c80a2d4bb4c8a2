"""Settings: where this machine keeps data and what can be computed again.

The data folder is, in this order: what a command or function was given; the environment variable ``FEDLOOM_DATA``;
``data_folder`` in ``fedloom.toml`` here, or in ``~/.config/fedloom.toml``; ``fedloom`` in ``$XDG_DATA_HOME``, which is
``~/.local/share`` by default.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from fedloom.errors import ArgumentError, UnknownName, require

CONFIGS = (Path("fedloom.toml"), Path("~/.config/fedloom.toml"))
KNOWN = ("data_folder",)
CHOSEN: ContextVar[Path | None] = ContextVar("data folder", default=None)


@contextmanager
def looking_in(folder: Path | None) -> Iterator[None]:
    """Inside, data sets are looked for in this folder where none is given; as before if it is ``None``."""
    token = CHOSEN.set(folder if folder is not None else CHOSEN.get())
    try:
        yield
    finally:
        CHOSEN.reset(token)


def data_folder(given: str | Path | None = None) -> Path:
    """The folder where data sets are.

    >>> str(data_folder("/tmp/data"))
    '/tmp/data'
    """
    if given is not None:
        return Path(given).expanduser()
    if (chosen := CHOSEN.get()) is not None:
        return chosen.expanduser()
    if named := os.environ.get("FEDLOOM_DATA"):
        return Path(named).expanduser()
    for config in CONFIGS:
        if folder := _read(config.expanduser()).get("data_folder"):
            return Path(folder).expanduser()
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "fedloom"


def cache_folder(*parts: str) -> Path:
    """A folder for what can be computed again: compiled programs, decoded images.

    >>> cache_folder("images").name
    'images'
    """
    return (Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fedloom").joinpath(*parts)


def _read(config: Path) -> dict[str, str]:
    if not config.is_file():
        return {}
    try:
        values = tomllib.loads(config.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ArgumentError(str(config), f"TOML ({error})", config.read_bytes()[:60]) from error
    for name, value in values.items():
        if name not in KNOWN:
            raise UnknownName(f"a setting in {config}", name, KNOWN)
        require(isinstance(value, str), f"{name} in {config}", "a text", value)
    return values
