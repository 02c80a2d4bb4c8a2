"""Gallery: which images of which class are in a directory or an archive."""

from __future__ import annotations

import os
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from fedloom.data.partition.partition import counted
from fedloom.errors import DataError

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError)  # the last: a password

SPLITS = {"train": "train", "training": "train", "val": "validation", "valid": "validation",
          "validation": "validation", "test": "test", "testing": "test"}  # fmt: skip
"""Folders that hold the class folders of a part, in small letters → the part."""

Parts = tuple[str, ...]
Found = dict[Parts, Any]  # a name, in parts → what it is read from; None for a folder
Content = tuple[int, Path | bytes]  # a row and its image file
Unread = dict[str, list[str]]
"""Reason → the files that are not read for it; the reasons are ``LOOSE``, ``LINK`` and ``OTHER``."""
LOOSE, LINK, OTHER = "loose", "link", "other"


def stem(archive: Path) -> str:
    """The name of an archive without its ending."""
    for ending in ARCHIVES:
        if archive.name.lower().endswith(ending):
            return archive.name[: -len(ending)]
    raise DataError(f"{archive} is neither a directory nor an archive: its name must end in {', '.join(ARCHIVES)}")


def walked(root: Path) -> Found:
    """Return everything in a folder. Links are followed where they are classes or files."""

    def stop(error: OSError) -> None:
        raise DataError(f"{error.filename} cannot be read ({error})") from error

    found: Found = {(path.name,): path for path in root.iterdir() if not path.is_dir()}
    for top in (path for path in root.iterdir() if path.is_dir()):
        found[(top.name,)] = None
        for place, _, files in os.walk(top, onerror=stop):
            inside = Path(place).relative_to(root).parts
            found |= {(*inside, file): Path(place, file) for file in files}
    return _seen(found)


@contextmanager
def archive(path: Path) -> Iterator[tuple[list[Parts], Iterator[Content], Unread]]:
    """Yield the names of the images in an archive, sorted; their rows and contents in the archive's order; and the
    files that are not read.
    """
    zipped = path.suffix.lower() == ".zip"
    with _blaming(path):
        opened: Any = zipfile.ZipFile(path) if zipped else tarfile.open(path)  # noqa: SIM115
    with opened:
        with _blaming(path):
            if zipped:
                found = {_parts(m.filename): None if m.is_dir() else m for m in opened.infolist()}
                links: Found = {}
            else:
                members = list(opened)
                found = {_parts(m.name): None if m.isdir() else m for m in members if m.isfile() or m.isdir()}
                links = _seen({_parts(m.name): m for m in members if not m.isfile() and not m.isdir()})
        seen = _seen(found)
        found = _unwrapped(seen)
        pictures = by_class(path, found)
        names, read = list(pictures), {id(member) for member in pictures.values()}
        unread = unread_files(seen, {parts: member for parts, member in seen.items() if id(member) in read}, links)
        rows = {parts: row for row, parts in enumerate(names)}

        def content(member: Any) -> bytes:
            with _blaming(path), opened.open(member) if zipped else opened.extractfile(member) as file:
                return file.read()

        # never sorted: going back in a compressed archive means starting it again
        yield names, ((rows[parts], content(member)) for parts, member in found.items() if parts in rows), unread


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
    if not has_parts({name[0] for name in names}):
        return [("train", name[0]) for name in names]
    return [(SPLITS[name[0].lower()], name[1]) for name in names]


def has_parts(folders: Iterable[str]) -> bool:
    """True if the first folders are those of parts, train among them, with another part or without.

    >>> has_parts(["train", "Val"]), has_parts(["train", "car"])
    (True, False)
    """
    parts = [SPLITS.get(folder.lower()) for folder in folders]
    return "train" in parts and None not in parts


def by_class(where: Path, found: Found) -> Found:
    """Return the images in class folders, sorted by class and name.

    Raises:
        DataError: there are no class folders; one has no images; or the folders of parts stand beside others.
    """
    folders = _folders(found)
    _check_parts(where, folders)
    depth = 3 if has_parts(folders) else 2  # folders and file names down to an image
    names = [parts for parts in _images(found) if len(parts) >= depth]
    if not folders:
        raise DataError(f"{where} has no class folders: put the images of each class into a folder of its own")
    if not names and depth == 3 and _images(found):
        inside = ", ".join(folders)
        raise DataError(f"{where} has no class folders in {inside}: put the images of each class into a folder there")
    if not names:
        raise DataError(f"{where} has no images in its class folders: their names must end in {', '.join(ENDINGS)}")
    if empty := sorted(set(folders) - {parts[0] for parts in names}):
        raise DataError(f"the class folder {empty[0]} in {where} has no images ({', '.join(ENDINGS)}): remove it")
    return {parts: found[parts] for parts in names}


def _check_parts(where: Path, folders: Sequence[str]) -> None:
    """Raise a :class:`DataError` if folders of several parts stand beside others, which would all become classes."""
    parts = [folder for folder in folders if folder.lower() in SPLITS]
    others = [folder for folder in folders if folder not in parts]
    if others and len({SPLITS[folder.lower()] for folder in parts}) > 1:
        kind = "images for training and testing" if len(parts) == 2 else "the parts of a data set"
        raise DataError(
            f"{where} has the folders {', '.join(parts)}, which look like {kind}, beside {', '.join(others[:3])}: move "
            "the others away, or rename the folders if all are classes"
        )


def unread_files(found: Found, read: Collection[Parts], links: Collection[Parts] = ()) -> Unread:
    """Return the files that are not read, by reason.

    Args:
        found: everything that is there, but hidden files.
        read: the images in class folders.
        links: the links in an archive.
    """
    unread: Unread = {LOOSE: [], LINK: sorted("/".join(parts) for parts in links), OTHER: []}
    for parts in sorted(parts for parts, source in found.items() if source is not None and parts not in read):
        unread[LOOSE if parts[-1].lower().endswith(ENDINGS) else OTHER].append("/".join(parts))
    return {reason: names for reason, names in unread.items() if names}


def unread_messages(unread: Unread) -> list[str]:
    """Return a sentence for each reason for which files are not read.

    >>> unread_messages({"other": ["cat/a.txt", "cat/b.heic", "c.txt"]})
    ['3 files are not read, the first cat/a.txt: .txt 2, .heic 1; images end in .jpg, .jpeg, .png, .bmp, .gif, .webp, \
.tif, .tiff, .pgm, .ppm']
    """
    messages = []
    for reason, names in unread.items():
        what = f"{counted(len(names), 'file is', 'files are')} not read, the first {names[0]}"
        if reason == LOOSE:
            what = f"{counted(len(names), 'image is', 'images are')} not read, the first {names[0]}"
            messages.append(f"{what}: outside the class folders; move each into the folder of its class")
        elif reason == LINK:
            messages.append(f"{what}: links or devices in an archive; replace them by files")
        else:
            endings = Counter(PurePosixPath(name).suffix.lower() or "no ending" for name in names)
            kinds = ", ".join(f"{ending} {n:,}" for ending, n in endings.most_common(5))
            messages.append(f"{what}: {kinds}; images end in {', '.join(ENDINGS)}")
    return messages
