"""Vocabulary: characters as small numbers, and back.

Code 0 is padding, then come the 82 characters of Shakespeare's plays in order, then everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int, Int8

CHARACTERS = "\n !\"&'(),-./0123456789:;?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]_abcdefghijklmnopqrstuvwxyz{"
PADDING = 0
UNKNOWN = len(CHARACTERS) + 1
SIZE = len(CHARACTERS) + 2
NAMES = ("padding", "newline", "space", *CHARACTERS[2:], "unknown")


def _table() -> Int8[np.ndarray, " 128"]:
    table = np.full(128, UNKNOWN, np.int8)
    table[[ord(character) for character in CHARACTERS]] = np.arange(1, UNKNOWN)
    return table


TABLE = _table()


def encode(text: str) -> Int8[np.ndarray, " characters"]:
    """The code of each character.

    >>> encode("To be…").tolist()
    [46, 70, 2, 57, 60, 83]
    """
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    # NUL, code point 0, is as unknown as all that lie beyond the table
    return TABLE[np.where(points < len(TABLE), points, 0)]


def decode(codes: Int[np.ndarray, " characters"]) -> str:
    """The text that codes stand for, without its padding; unknown characters become �.

    >>> decode(encode("To be…"))
    'To be�'
    """
    return "".join(["", *CHARACTERS, "�"][code] for code in codes)
