"""Images: a directory of images by class, or an archive of one; decoded once, memory-mapped from then on."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import struct
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from fedloom.data.dataset import Dataset
from fedloom.data.files import find, replacing
from fedloom.data.gallery import Content, Parts, archive, by_class, part_and_class, stem, walked
from fedloom.data.partition.partition import counted
from fedloom.data.split.split import PARTS
from fedloom.errors import DataError, whole
from fedloom.progress import tracked
from fedloom.settings import cache_folder

if TYPE_CHECKING:
    from jaxtyping import UInt8

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")  # what files of these names hold in practice; none that runs a program
VERSION = 2  # of what is kept: with another number, everything is decoded again
UNREADABLE = (OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, struct.error, zlib.error,
              EOFError, Image.DecompressionBombError)  # fmt: skip


def images(
    path: str | Path, size: int = 32, grey: bool = False, skip: bool = False, folder: str | Path | None = None
) -> Dataset:
    """Images by class: every folder in a directory (or in a .tar, .tar.gz or .zip archive) is a class.

    The .jpg, .jpeg and .png files in a class folder, however deep, are cut to a square about the middle, resized and
    kept in the cache; transparent parts become white. An archive may hold its class folders in one outer folder. Where
    the folders are train and test (and validation), the class folders are inside them.

    Arguments:
        path: the directory or archive, here or in the data folder.
        size: the side of the squares, in pixels.
        grey: one value a pixel, x of (n, size, size), instead of three colours, (n, size, size, 3).
        skip: leave unreadable images out, and say so in the note, instead of stopping at the first.
        folder: the data folder.
    """
    whole("size", size, 1)
    where = find(path, folder).resolve()
    is_folder = where.is_dir()
    name = where.name if is_folder else stem(where)
    pictures = by_class(where, walked(where)) if is_folder else {}
    stamps = [("/".join(parts), *_stamp(file)) for parts, file in pictures.items()] or [("", *_stamp(where))]
    told = json.dumps([VERSION, str(where), size, grey, stamps])
    kept = cache_folder("images") / f"{name}-{hashlib.sha256(told.encode()).hexdigest()[:32]}.npy"
    if not kept.exists():
        shape = (size, size) if grey else (size, size, 3)
        if is_folder:
            _keep(kept, list(pictures), enumerate(pictures.values()), shape, skip)
        else:
            with archive(where) as (names, contents):
                _keep(kept, names, contents, shape, skip)
    return _kept(name, kept, skip)


def decoded(content: Path | bytes, size: int, grey: bool) -> UInt8[np.ndarray, "size size *colours"]:
    """An image file as a square of pixels, upright whichever way the camera was held."""
    mode = "L" if grey else "RGB"
    with Image.open(content if isinstance(content, Path) else io.BytesIO(content), formats=FORMATS) as image:
        image.draft(mode, (2 * size, 2 * size))  # decodes a big JPEG at a fraction of its size, in a fraction of time
        ImageOps.exif_transpose(image, in_place=True)
        return np.asarray(ImageOps.fit(plain(image, mode), (size, size)))


def plain(image: Image.Image, mode: str) -> Image.Image:
    """The image in grey (``"L"``) or colour (``"RGB"``), its transparent parts white.

    >>> plain(Image.new("RGBA", (1, 1), (255, 0, 0, 0)), "RGB").getpixel((0, 0))
    (255, 255, 255)
    """
    if image.mode.startswith("I"):  # 16 bits a pixel: Pillow would clip them to 8, not scale them
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image.convert("RGBA"))
        image = white
    return image.convert(mode)


def _stamp(file: Path) -> tuple[int, int]:
    """Size and time of change; a link that leads nowhere has neither, and is an unreadable image."""
    try:
        facts = file.stat()
    except OSError:
        return -1, -1
    return facts.st_size, facts.st_mtime_ns


def _keep(kept: Path, names: list[Parts], contents: Iterable[Content], shape: tuple[int, ...], skip: bool) -> None:
    """Decode into the cache. The pixels get their name last, in one rename: what has that name is whole."""
    with replacing(kept) as temporary:
        _check_space(kept.parent, len(names) * int(np.prod(shape)))
        x = np.lib.format.open_memmap(temporary, "w+", np.uint8, (len(names), *shape))
        problems = _decode(x, names, contents, skip)
        good = [row for row in range(len(names)) if row not in problems]
        groups = part_and_class(names)
        counts = Counter(groups[row] for row in good)
        for row in sorted(problems):
            if not counts[groups[row]]:
                raise DataError(
                    f"no image in the class folder {groups[row][1]} can be read, the first of them being "
                    f"{'/'.join(names[row])} ({problems[row]})"
                )
        if problems:
            with replacing(temporary) as shorter:
                y = np.lib.format.open_memmap(shorter, "w+", np.uint8, (len(good), *shape))
                for new, old in enumerate(good):
                    y[new] = x[old]
                y.flush()
        x.flush()
        skipped = [("/".join(names[row]), problems[row]) for row in sorted(problems)]
        with replacing(kept.with_suffix(".json")) as about:
            about.write_text(json.dumps({"counts": [[*group, n] for group, n in counts.items()], "skipped": skipped}))


def _check_space(folder: Path, needed: int) -> None:
    """Writing to a memory map on a full disk would kill the process."""
    if (free := shutil.disk_usage(folder).free) < needed:
        raise DataError(
            f"the decoded images need {needed:,} bytes in {folder}, which has {free:,} left: "
            "choose a smaller size, or another cache folder (XDG_CACHE_HOME)"
        )


def _decode(x: np.ndarray, names: list[Parts], contents: Iterable[Content], skip: bool) -> dict[int, str]:
    """Decode images into the rows of x, several at a time; gives the rows that could not be read, and why."""

    def put(content: Content) -> tuple[int, str]:
        row, file = content
        try:
            x[row] = decoded(file, x.shape[1], grey=x.ndim == 3)
        except UnidentifiedImageError:
            return row, "it holds no image"
        except UNREADABLE as error:
            return row, str(error) or type(error).__name__
        return row, ""

    problems = {}
    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        for row, problem in tracked(_ahead(pool, put, contents, 8 * threads), len(names), "decoding images"):
            if problem and not skip:
                raise _unreadable("/".join(names[row]), problem)
            if problem:
                problems[row] = problem
    return problems


def _ahead(
    pool: ThreadPoolExecutor, work: Callable[[Content], tuple[int, str]], contents: Iterable[Content], ahead: int
) -> Iterator[tuple[int, str]]:
    """Results in order, with no more than so many contents in memory: an archive need not fit."""
    waiting: deque[Future[tuple[int, str]]] = deque()
    for content in contents:
        waiting.append(pool.submit(work, content))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    yield from (future.result() for future in waiting)


def _unreadable(name: str, problem: str) -> DataError:
    advice = "repair or remove it, or leave such images out (skip=True, --unreadable skip)"
    return DataError(f"the image {name} cannot be read ({problem}): {advice}")


def _kept(name: str, kept: Path, skip: bool) -> Dataset:
    """The data set in the cache."""
    about = json.loads(kept.with_suffix(".json").read_text())
    groups, skipped = about["counts"], about["skipped"]
    if skipped and not skip:
        raise _unreadable(*skipped[0])
    note = f"{counted(len(skipped), 'unreadable image is', 'unreadable images are')} left out, " if skipped else ""
    note += f"the first {skipped[0][0]}" if skipped else ""
    classes = sorted({kind for _, kind, _ in groups})
    many = [n for _, _, n in groups]
    y = np.repeat(np.array([classes.index(kind) for _, kind, _ in groups], np.int32), many)
    part = np.repeat([part for part, _, _ in groups], many)
    columns = {"x": np.load(kept, mmap_mode="r"), "y": y}
    train, validation, test = (np.flatnonzero(part == which) for which in PARTS)
    return Dataset(
        name, columns, len(classes), train, validation, test, class_names=tuple(classes), note=note, images=True
    )
