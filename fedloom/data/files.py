"""Files: finding data in the data folder, reading it compressed or not, and never leaving half a file behind."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from fedloom.errors import DataError
from fedloom.progress import watched
from fedloom.settings import data_folder

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
BROKEN = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


@contextmanager
def opened(path: Path, mode: str = "rb", bar: str | None = None) -> Iterator[IO[Any]]:
    """A file open for reading, decompressed if its name ends in .gz, .xz or .bz2 (text with mode ``"rt"``).

    Whatever is wrong with the file, also while it is read inside, is an error that names it. With ``bar``, a text, a
    bar on the terminal shows how much of the file has been read.
    """
    is_text = "t" in mode
    text = {"encoding": "utf-8-sig", "newline": ""} if is_text else {}
    try:
        with path.open("rb") as raw, watched(raw, path.stat().st_size, bar) as taken:
            if path.suffix.lower() in OPENERS:
                with OPENERS[path.suffix.lower()](taken, mode, **text) as file:
                    yield file
            else:
                yield io.TextIOWrapper(taken, encoding="utf-8-sig", newline="") if is_text else taken
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error}): convert it") from error
    except BROKEN as error:
        raise DataError(f"{path} is truncated or damaged ({error}): fetch it again") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error})") from error


def find(name: str | Path, folder: str | Path | None = None) -> Path:
    """A file or folder by its path, or by its place in the data folder."""
    here, there = Path(name).expanduser(), data_folder(folder) / name
    for path in (here, there):
        if path.exists():
            return path
    raise DataError(
        f"{name} is neither here nor in the data folder {data_folder(folder)}: name the folder that holds it "
        "(--data-folder, FEDLOOM_DATA, or data_folder in fedloom.toml)"
    )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Inside, a temporary path beside the given one; in the end it is flushed to the disk and takes its place at once,
    or vanishes after an error.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error})") from error
    os.close(handle)
    temporary = Path(name)
    temporary.chmod(0o666 & ~_umask())  # as any new file, not for the owner alone
    try:
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
