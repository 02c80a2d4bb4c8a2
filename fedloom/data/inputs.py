"""Inputs: whether the column x holds images, integers or numbers, and the type in which each is stored.

The type in which a data set stores x declares what x is, so the declaration reaches every engine, process and
participant with the rows:

- images are ``uint8`` or ``uint16``, which models see as 0 to 1, or floats between 0 and 1 already;
- integers that are no images (tokens, counts, categories) are signed and have at most 32 bits;
- all other numbers are floats of at most 32 bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedloom.data.precision import warn_of_rounding
from fedloom.errors import DataError, warn

WHITE = {np.dtype(np.uint8): 255, np.dtype(np.uint16): 65_535}
"""Type of pixels → the value of white."""

COLOURS = (1, 3, 4)  # numbers of channels that an image has
DARK = 16  # undeclared pixels that are all darker than 1/16 of white are probably no pixels
HOW = "images=True (--images yes) makes images 0 to 1, images=False (--images no) uses integers as they are"


def white(dtype: npt.DTypeLike) -> int:
    """Return the value of white in pixels of a type; 0 if the type is not one of pixels.

    >>> white(np.uint8), white(np.int32)
    (255, 0)
    """
    return WHITE.get(np.dtype(dtype), 0)


def stored(name: str, x: np.ndarray, images: bool | None) -> tuple[np.ndarray, bool]:
    """Return the column x in the type that says what it is, and whether it is images.

    Args:
        name: the data set, for errors and warnings.
        x: one row an example.
        images: whether x is images. ``None``: it is if its type is uint8 or uint16 and an example has the shape of an
            image, (H, W), (H, W, C) or (C, H, W) with 1, 3 or 4 channels C.

    Raises:
        DataError: x is declared images, but its values cannot be those of pixels.

    >>> stored("text", np.array([[3, 200]], np.uint8), images=None)
    (array([[  3, 200]], dtype=int16), False)
    >>> stored("photos", np.full((1, 1, 2), 255), images=True)
    (array([[[255, 255]]], dtype=uint8), True)
    """
    if x.dtype.kind not in "biuf":
        return x, bool(images)
    if images is None:
        is_images = bool(white(x.dtype)) and has_image_shape(x.shape[1:])
        _warn_of_doubt(name, x, is_images)
    else:
        is_images = images
    return (_pixels(name, x) if is_images else _numbers(name, x, declared=images is not None)), is_images


def described(x: np.ndarray, images: bool, standardised: bool = False) -> str:
    """Return one line about what models see of the column x.

    >>> described(np.zeros((1, 2, 2), np.uint8), images=True)
    'images: 0 to 255 becomes 0 to 1'
    """
    if images:
        most = white(x.dtype)
        return f"images: 0 to {most:,} becomes 0 to 1" if most else "images: 0 to 1, used as they are"
    if standardised:
        return "numbers: standardised by mean and deviation"
    return "integers: used as they are" if x.dtype.kind in "iu" else "numbers: used as they are"


def has_image_shape(shape: tuple[int, ...]) -> bool:
    """Return whether an example of this shape can be an image.

    >>> has_image_shape((28, 28)), has_image_shape((3, 32, 32)), has_image_shape((784,)), has_image_shape((9, 9, 9))
    (True, True, False, False)
    """
    return len(shape) == 2 or (len(shape) == 3 and (shape[0] in COLOURS or shape[2] in COLOURS))


def can_be_pixels(x: np.ndarray) -> bool:
    """Return whether all values are between 0 and 1, or whole and between 0 and 255."""
    if not x.size:
        return True
    low, high = x.min(), x.max()
    return bool(low >= 0 and (high <= 1 or (high <= 255 and _is_whole(x))))


def _warn_of_doubt(name: str, x: np.ndarray, is_images: bool) -> None:
    """Warn where nobody declared what x is, and its values suggest the contrary of what its type and shape say."""
    if not x.size or not has_image_shape(x.shape[1:]):
        return
    low, high = x.min(), x.max()
    if is_images and high < (white(x.dtype) + 1) // DARK:
        warn(
            f"{name}: column x has the type {x.dtype} and the shape of images, so its values from 0 to {high} become "
            f"0 to {high / white(x.dtype):.3g}. {HOW}"
        )
    if not is_images and low >= 0 and 128 <= high <= 255 and _is_whole(x):
        warn(
            f"{name}: column x has the shape of images and whole values from {low:g} to {high:g} of the type "
            f"{x.dtype}, which are used as they are. {HOW}"
        )


def _pixels(name: str, x: np.ndarray) -> np.ndarray:
    """Return images as bytes, 16-bit pixels, or floats between 0 and 1."""
    if white(x.dtype) or not x.size:
        return x
    if x.dtype.kind == "b":
        return np.where(x, np.uint8(255), np.uint8(0))
    if not can_be_pixels(x):
        raise DataError(
            f"column x of {name} is declared images, but holds {x.dtype} from {x.min():g} to {x.max():g}: store "
            "pixels as uint8, as uint16 where white is 65,535, or as floats between 0 and 1; or say images=False"
        )
    if x.dtype.kind == "f" and x.max() <= 1:
        return _float32(x)
    return x.astype(np.uint8)


def _numbers(name: str, x: np.ndarray, declared: bool) -> np.ndarray:
    """Return integers in a signed type of at most 32 bits, and other numbers in a float of at most 32."""
    if x.dtype.kind == "f":
        found = _float32(x)
    elif x.dtype.itemsize == 1 and x.dtype.kind != "i":
        return x.astype(np.int8 if x.dtype.kind == "b" else np.int16)
    elif x.dtype.kind == "i" and x.dtype.itemsize <= 4:
        found = x
    else:
        limits = np.iinfo(np.int32)
        fits = not x.size or (x.min() >= limits.min and x.max() <= limits.max)
        found = x.astype(np.int32 if fits else np.float32)
    if found is not x or not declared:
        warn_of_rounding(name, "x", x)
    return found


def _float32(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # a later check names the row and the client of an infinite number
        return x.astype(np.float32, copy=False)


def _is_whole(x: np.ndarray) -> bool:
    return x.dtype.kind in "biu" or bool((x == np.floor(x)).all())
