"""Gallery: which images of which class are in a directory or an archive."""

from __future__ import annotations

import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedloom.errors import DataError

ENDINGS = (".jpg", ".jpeg", ".png")
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError)  # the last: a password

SPLITS = {"train": "train", "training": "train", "val": "validation", "valid": "validation",
          "validation": "validation", "test": "test", "testing": "test"}  # fmt: skip
"""Folders that hold the class folders of a part, in small letters → the part."""

Parts = tuple[str, ...]
Found = dict[Parts, Any]  # a name, in parts → what it is read from; None for a folder
Content = tuple[int, Path | bytes]  # a row and its image file


def stem(archive: Path) -> str:
    """The name of an archive without its ending."""
    for ending in ARCHIVES:
        if archive.name.lower().endswith(ending):
            return archive.name[: -len(ending)]
    raise DataError(f"{archive} is neither a directory nor an archive: its name must end in {', '.join(ARCHIVES)}")


def walked(root: Path) -> Found:
    """Everything in the folders of a directory. Links are followed where they are classes or files."""

    def stop(error: OSError) -> None:
        raise DataError(f"{error.filename} cannot be read ({error})") from error

    found: Found = {}
    for top in (path for path in root.iterdir() if path.is_dir()):
        found[(top.name,)] = None
        for place, _, files in os.walk(top, onerror=stop):
            inside = Path(place).relative_to(root).parts
            found |= {(*inside, file): Path(place, file) for file in files}
    return _seen(found)


@contextmanager
def archive(path: Path) -> Iterator[tuple[list[Parts], Iterator[Content]]]:
    """Inside, the names of the images in an archive, sorted, and their rows and contents in the archive's order."""
    zipped = path.suffix.lower() == ".zip"
    with _blaming(path):
        opened: Any = zipfile.ZipFile(path) if zipped else tarfile.open(path)  # noqa: SIM115
    with opened:
        with _blaming(path):
            if zipped:
                found = {_parts(m.filename): None if m.is_dir() else m for m in opened.infolist()}
            else:  # links and devices are left out
                found = {_parts(m.name): None if m.isdir() else m for m in opened if m.isfile() or m.isdir()}
        found = _unwrapped(_seen(found))
        names = list(by_class(path, found))
        rows = {parts: row for row, parts in enumerate(names)}

        def content(member: Any) -> bytes:
            with _blaming(path), opened.open(member) if zipped else opened.extractfile(member) as file:
                return file.read()

        # never sorted: going back in a compressed archive means starting it again
        yield names, ((rows[parts], content(member)) for parts, member in found.items() if parts in rows)


@contextmanager
def _blaming(path: Path) -> Iterator[None]:
    try:
        yield
    except BROKEN as error:
        raise DataError(f"{path} is damaged, or no archive that can be read ({error}): fetch it again") from error


def _parts(name: str) -> Parts:
    return tuple(part for part in name.split("/") if part not in ("", "."))


def _seen(found: Found) -> Found:
    """What is neither hidden nor a Mac's notes about the files in a zip."""
    return {p: s for p, s in found.items() if p and not any(part.startswith((".", "__MACOSX")) for part in p)}


def _folders(found: Found) -> list[str]:
    """The folders of the first level, whether or not anything is in them."""
    return sorted({parts[0] for parts, source in found.items() if len(parts) > 1 or source is None})


def _images(found: Found) -> list[Parts]:
    return sorted(p for p, source in found.items() if source is not None and p[-1].lower().endswith(ENDINGS))


def _unwrapped(found: Found) -> Found:
    """Without the one folder that holds all others, which most archives of a directory have."""
    if len(_folders(found)) != 1 or any(len(parts) == 2 for parts in _images(found)):
        return found
    inner = {parts[1:]: source for parts, source in found.items() if len(parts) > 1}
    return inner if _folders(inner) else found


def part_and_class(names: list[Parts]) -> list[tuple[str, str]]:
    """For each image the part it is for and its class: the first folder is the class, unless the first folders are
    train and test (and validation) and hold the class folders.

    >>> part_and_class([("train", "cat", "1.png"), ("test", "cat", "1.png")])
    [('train', 'cat'), ('test', 'cat')]
    >>> part_and_class([("cat", "1.png"), ("dog", "1.png")])
    [('train', 'cat'), ('train', 'dog')]
    """
    parts = {name[0]: SPLITS.get(name[0].lower()) for name in names}
    if "train" in parts.values() and None not in parts.values() and all(len(name) > 2 for name in names):
        return [(parts[name[0]] or "", name[1]) for name in names]
    return [("train", name[0]) for name in names]


def by_class(where: Path, found: Found) -> Found:
    """The images in class folders, sorted by class and name, after a check that every class has some."""
    names = [parts for parts in _images(found) if len(parts) > 1]
    if not (folders := _folders(found)):
        raise DataError(f"{where} has no class folders: put the images of each class into a folder of its own")
    if not names:
        raise DataError(f"{where} has no images in its class folders: their names must end in {', '.join(ENDINGS)}")
    if empty := sorted(set(folders) - {parts[0] for parts in names}):
        raise DataError(f"the class folder {empty[0]} in {where} has no images ({', '.join(ENDINGS)}): remove it")
    return {parts: found[parts] for parts in names}
