"""Images: a folder of images by class, or an archive of one; decoded once, memory-mapped from then on."""

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
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from fedloom.data.dataset import Dataset
from fedloom.data.deep_pixels import BITS, LEAST_COLOUR, Square, deep_square, is_deep_colour, is_deep_grey, to_8_bits
from fedloom.data.files import find, replacing
from fedloom.data.gallery import (
    Content,
    Parts,
    Unread,
    archive,
    by_class,
    part_and_class,
    stem,
    unread_files,
    unread_messages,
    walked,
)
from fedloom.data.name_order import name_order
from fedloom.data.partition.partition import counted
from fedloom.data.split.split import PARTS
from fedloom.errors import DataError, warn, whole
from fedloom.progress import tracked
from fedloom.settings import cache_folder

if TYPE_CHECKING:
    from jaxtyping import UInt8

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM")  # none of them runs a program
FRAMED = ("GIF", "PNG", "TIFF", "WEBP")  # formats whose files may hold several pictures
VERSION = 3  # of the cache: with another number, everything is decoded again
UNREADABLE = (OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, struct.error, zlib.error,
              EOFError, Image.DecompressionBombError)  # fmt: skip


def images(
    path: str | Path, size: int = 32, grey: bool = False, skip: bool = False, folder: str | Path | None = None
) -> Dataset:
    """Images by class: every folder in a directory (or in a .tar, .tar.gz or .zip archive) is a class.

    The image files in a class folder, however deep, are cut to a square about the middle, resized and kept in the
    cache; transparent parts become white. Files end in .jpg, .jpeg, .png, .bmp, .gif, .webp, .tif, .tiff, .pgm or .ppm;
    a warning counts all others, but hidden ones. An archive may hold its class folders in one outer folder. Where the
    folders are train and test (and validation), the class folders are inside them.

    Grey images of more than 8 bits are scaled to 8 bits by the range of the whole data set: 8, 10, 12, 14 or 16 bits,
    the fewest that hold its largest value, or more where TIFF files declare more. The note says how many.

    Classes are numbered in the order of their names: as numbers if all are numbers, else by letter.

    Arguments:
        path: the directory or archive, here or in the data folder.
        size: the side of the squares, in pixels.
        grey: one value a pixel, x of (n, size, size), instead of three colours, (n, size, size, 3).
        skip: leave unreadable images out, with a warning, instead of stopping at the first.
        folder: the data folder.
    """
    whole("size", size, 1)
    where = find(path, folder).resolve()
    is_folder = where.is_dir()
    name = where.name if is_folder else stem(where)
    files = walked(where) if is_folder else {}
    pictures = by_class(where, files) if is_folder else {}
    stamps = [("/".join(parts), *_stamp(file)) for parts, file in pictures.items()] or [("", *_stamp(where))]
    identity = json.dumps([VERSION, str(where), size, grey, stamps])
    kept = cache_folder("images") / f"{name}-{hashlib.sha256(identity.encode()).hexdigest()[:32]}.npy"
    if not kept.exists():
        shape = (size, size) if grey else (size, size, 3)
        if is_folder:
            _keep(kept, list(pictures), enumerate(pictures.values()), shape, skip)
        else:
            with archive(where) as (names, contents, unread):
                _keep(kept, names, contents, shape, skip, unread)
    data, unread = _kept(name, kept, skip)
    for message in unread_messages(unread_files(files, pictures) if is_folder else unread):
        warn(f"{name}: {message}")
    return data


def decoded(content: Path | bytes, size: int, grey: bool) -> UInt8[np.ndarray, "size size *colours"]:
    """Return one image file as a square of pixels, scaled by its own range."""
    square = read_square(content, size, grey)
    pixels = to_8_bits(square.pixels, square.bits) if square.bits else square.pixels
    return pixels if grey or not square.bits else np.repeat(pixels[..., None], 3, axis=-1)


def read_square(content: Path | bytes, size: int, grey: bool) -> Square:
    """Return an image file as a square of pixels, upright whichever way the camera was held.

    Raises:
        ValueError: the file holds several pictures, or pixels whose range nothing declares.
    """
    mode = "L" if grey else "RGB"
    with Image.open(content if isinstance(content, Path) else io.BytesIO(content), formats=FORMATS) as image:
        if image.format in FRAMED and (frames := getattr(image, "n_frames", 1)) > 1:
            raise ValueError(f"it holds {frames:,} pictures, and only one can be an example: save each as a file")
        if image.mode == "F":
            raise ValueError("its pixels are floating-point numbers of no declared range: save it with 8 or 16 bits")
        is_deep = is_deep_colour(image)
        image.draft(mode, (2 * size, 2 * size))  # decodes a big JPEG at a fraction of its size, in a fraction of time
        ImageOps.exif_transpose(image, in_place=True)
        if is_deep_grey(image):
            return deep_square(image, size)
        colour = int(np.asarray(image).max()) if is_deep else -1
        return Square(np.asarray(ImageOps.fit(plain(image, mode), (size, size))), colour=colour)


def plain(image: Image.Image, mode: str) -> Image.Image:
    """The image in grey (``"L"``) or colour (``"RGB"``), its transparent parts white.

    >>> plain(Image.new("RGBA", (1, 1), (255, 0, 0, 0)), "RGB").getpixel((0, 0))
    (255, 255, 255)
    """
    if image.has_transparency_data:
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


def _keep(
    kept: Path,
    names: list[Parts],
    contents: Iterable[Content],
    shape: tuple[int, ...],
    skip: bool,
    unread: Unread | None = None,
) -> None:
    """Decode into the cache. The pixels get their name last, in one rename: a file of that name is complete."""
    with replacing(kept) as temporary:
        _check_space(kept.parent, len(names) * int(np.prod(shape)))
        x = np.lib.format.open_memmap(temporary, "w+", np.uint8, (len(names), *shape))
        problems, bits = _decode(x, names, contents, skip, kept.parent)
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
        about = {"counts": [[*group, n] for group, n in counts.items()], "skipped": skipped, "bits": bits}
        with replacing(kept.with_suffix(".json")) as file:
            file.write_text(json.dumps({**about, "unread": unread or {}}))


def _check_space(folder: Path, needed: int) -> None:
    """Writing to a memory map on a full disk would kill the process."""
    if (free := shutil.disk_usage(folder).free) < needed:
        raise DataError(
            f"the decoded images need {needed:,} bytes in {folder}, which has {free:,} left: "
            "choose a smaller size, or another cache folder (XDG_CACHE_HOME)"
        )


def _decode(
    x: np.ndarray, names: list[Parts], contents: Iterable[Content], skip: bool, place: Path
) -> tuple[dict[int, str], int]:
    """Decode images into the rows of x, several at a time.

    Returns:
        The rows that could not be read, with the reason; and the bits of deep grey images, 0 if there are none.
    """
    size, grey = x.shape[1], x.ndim == 3
    bits, colours = dict[int, int](), dict[int, int]()
    with TemporaryFile(dir=place) as spool:  # deep pixels wait here until the range of all is known
        deep = np.memmap(spool, np.float32, "w+", shape=(max(len(names), 1), size, size))

        def put(content: Content) -> tuple[int, str]:
            row, file = content
            try:
                square = read_square(file, size, grey)
            except UnidentifiedImageError:
                return row, "it holds no image"
            except UNREADABLE as error:
                return row, str(error) or type(error).__name__
            if square.bits:
                deep[row], bits[row] = square.pixels, square.bits
            else:
                x[row] = square.pixels
            if square.colour >= 0:
                colours[row] = square.colour
            return row, ""

        problems = {}
        threads = os.cpu_count() or 1
        with ThreadPoolExecutor(threads) as pool:
            for row, problem in tracked(_ahead(pool, put, contents, 8 * threads), len(names), "decoding images"):
                if problem and not skip:
                    raise _unreadable("/".join(names[row]), problem)
                if problem:
                    problems[row] = problem
        _check_colours(names, colours)
        most = max(bits.values(), default=0)
        for row in bits:
            x[row] = to_8_bits(deep[row], most) if grey else to_8_bits(deep[row], most)[..., None]
    return problems, most


def _check_colours(names: list[Parts], colours: dict[int, int]) -> None:
    """Raise a :class:`DataError` if colour images of 16 bits use the lower 14 bits at most."""
    if colours and max(colours.values()) < LEAST_COLOUR:
        first = "/".join(names[min(colours)])
        raise DataError(
            f"the colour images of 16 bits hold no value above {256 * LEAST_COLOUR - 1:,} of 65,535, the first being "
            f"{first}: they would be dark; scale their values to 65,535, or save them with 8 bits"
        )


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


def _kept(name: str, kept: Path, skip: bool) -> tuple[Dataset, Unread]:
    """Return the data set in the cache, and the files of its archive that were not read."""
    about = json.loads(kept.with_suffix(".json").read_text())
    groups, skipped = about["counts"], about["skipped"]
    if skipped and not skip:
        raise _unreadable(*skipped[0])
    notes = []
    if skipped:
        verb = counted(len(skipped), "unreadable image is", "unreadable images are")
        notes.append(f"{verb} left out, the first {skipped[0][0]}")
        warn(f"{name}: {notes[0]} ({skipped[0][1]})")
    if bits := about["bits"]:
        notes.append(f"grey images of more than 8 bits are read as {bits} bits: 0 to {2**bits - 1:,}")
        if bits < BITS[-1]:
            warn(f"{name}: {notes[-1]}, by the largest value of all; if that is wrong, save them with 8 bits")
    found = list(dict.fromkeys(kind for _, kind, _ in groups))
    classes = [found[i] for i in name_order(found)]
    many = [n for _, _, n in groups]
    y = np.repeat(np.array([classes.index(kind) for _, kind, _ in groups], np.int32), many)
    part = np.repeat([part for part, _, _ in groups], many)
    columns = {"x": np.load(kept, mmap_mode="r"), "y": y}
    train, validation, test = (np.flatnonzero(part == which) for which in PARTS)
    data = Dataset(
        name, columns, len(classes), train, validation, test, class_names=tuple(classes), note="; ".join(notes),
        images=True,
    )  # fmt: skip
    return data, about["unread"]
