"""Deep pixels: images of more than 8 bits, scaled to 8 bits by the true range of a whole data set.

A file of 16 bits a pixel often holds the 12 bits of a camera or a scanner. Scaled by 65,535, such images would be
nearly black. The range of a data set is therefore found from all its grey images of more than 8 bits:

- a TIFF file that declares 9 to 15 bits a sample has the range of so many bits;
- the others have the range of the fewest bits among 8, 10, 12, 14 and 16 that hold their largest value;
- the range of the data set is the largest of these, and black is 0.

One range for all keeps images comparable. Colour images of 16 bits are scaled by 65,535, since Pillow reads no more
than their upper 8 bits; if none of them reaches a quarter of that range, they are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps

if TYPE_CHECKING:
    from jaxtyping import Shaped, UInt8

BITS = (8, 10, 12, 14, 16)
BITS_PER_SAMPLE = 258  # a tag of TIFF
LEAST_COLOUR = 64  # of the upper 8 bits: 14 bits or fewer are in use below it


@dataclass(frozen=True)
class Square:
    """A decoded image, cut to a square.

    Arguments:
        pixels: ``uint8``, or ``float32`` if the image is grey and deep.
        bits: the bits that hold the largest value of a deep grey image, or that its file declares; 0 for others.
        colour: the largest upper byte of a deep colour image; -1 for others.
    """

    pixels: Shaped[np.ndarray, "size size *colours"]
    bits: int = 0
    colour: int = -1


def bits_of(most: float) -> int:
    """Return the fewest bits among ``BITS`` that hold a value.

    >>> [bits_of(most) for most in (200, 256, 3071, 4096, 65535)]
    [8, 10, 12, 14, 16]
    """
    return next(bits for bits in BITS if most < 2**bits)


def to_8_bits(pixels: np.ndarray, bits: int) -> UInt8[np.ndarray, ...]:
    """Return deep pixels as 0 to 255.

    >>> to_8_bits(np.array([0, 2048, 4095]), 12).tolist()
    [0, 128, 255]
    """
    return np.clip(np.round(pixels * (255 / (2**bits - 1))), 0, 255).astype(np.uint8)


def is_deep_grey(image: Image.Image) -> bool:
    """True if an image has one channel of more than 8 bits."""
    return image.mode.startswith("I")


def is_deep_colour(image: Image.Image) -> bool:
    """True if an image, which is not loaded yet, has several channels of 16 bits, of which Pillow keeps the upper 8."""
    return not is_deep_grey(image) and any(";16" in str(tile[3]) for tile in getattr(image, "tile", ()))


def deep_square(image: Image.Image, size: int) -> Square:
    """Return a deep grey image, cut to a square and resized.

    Raises:
        ValueError: a pixel is negative, or needs more than 16 bits.
    """
    values = np.asarray(image)
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= 2 ** BITS[-1]:
        raise ValueError(f"its pixels are {low:,} to {high:,}, and not 0 to 65,535: save it with 8 or 16 bits")
    bits, declared = bits_of(high), declared_bits(image)
    fitted = ImageOps.fit(Image.fromarray(values.astype(np.float32)), (size, size))
    return Square(np.asarray(fitted), max(bits, declared))


def declared_bits(image: Image.Image) -> int:
    """Return the bits a sample that a TIFF file declares, if they are 9 to 15; otherwise 0."""
    tags = getattr(image, "tag_v2", None)
    [bits, *_] = (tags.get(BITS_PER_SAMPLE) if tags is not None else None) or (0,)
    return int(bits) if BITS[0] < bits < BITS[-1] else 0
