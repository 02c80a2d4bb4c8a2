"""Shakespeare: all 37 plays, shipped inside the package; a role in a play is a user, the task the next character.

The task is that of McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data",
section 3: roles with at least two lines, of each role the first 80 % of its lines for training and the last 20 %, at
least one line, for testing.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.files import opened
from fedloom.data.vocabulary import NAMES, PADDING, SIZE, encode
from fedloom.errors import require, whole

if TYPE_CHECKING:
    from jaxtyping import Int, UInt8

FILE = Path(__file__).parents[1] / "files" / "shakespeare" / "roles.jsonl.gz"
NOTHING = -1  # in y, where there is no next character


@cache
def shakespeare(window: int = 80, least_lines: int = 2) -> Dataset:
    """Shakespeare's plays: predict each next character of what a role says.

    The last ``max(1, lines // 5)`` lines of a role are its test set. The lines of each side, joined by newlines, are
    cut into windows that do not overlap: ``x`` has the codes of ``window`` characters, ``y`` those of the characters
    that follow each. The last window of a side is padded: ``x`` with 0, ``y`` with -1.

    Arguments:
        window: characters in an example.
        least_lines: roles with fewer lines than this are left out.

    >>> shakespeare()
    Dataset('shakespeare': 43,478 train, 0 validation, 10,865 test examples of 1,216 users)
    """
    whole("window", window, 1)
    whole("least_lines", least_lines, 2)
    names, sides = [], []
    for name, lines in _roles():
        if len(lines) >= least_lines:
            names.append(name)
            cut = len(lines) - max(1, len(lines) // 5)
            sides += [encode("\n".join(part)) for part in (lines[:cut], lines[cut:])]
    most = max(len(lines) for _, lines in _roles())
    require(bool(names), "least_lines", f"at most {most:,}, the lines of the longest role", least_lines)
    x, y, side = windows(sides, window)
    for column in (x, y):
        column.setflags(write=False)  # everybody who asks gets these
    return Dataset(
        name="shakespeare",
        columns={"x": x, "y": y},
        classes=SIZE,
        train=np.flatnonzero(side % 2 == 0),
        test=np.flatnonzero(side % 2 == 1),
        users=side // 2,
        user_names=tuple(names),
        class_names=NAMES,
        note=f"the next of {window} characters each; of each role the last fifth of its lines is for testing",
    )


def windows(
    texts: list[UInt8[np.ndarray, " characters"]], window: int
) -> tuple[UInt8[np.ndarray, "n window"], Int[np.ndarray, "n window"], Int[np.ndarray, " n"]]:
    """Texts cut into windows: their characters, those that follow, and the text that each window is from.

    >>> x, y, text = windows([np.array([5, 6, 7, 8], np.uint8), np.array([9], np.uint8)], window=2)
    >>> x.tolist(), y.tolist(), text.tolist()
    ([[5, 6], [7, 0]], [[6, 7], [8, -1]], [0, 0])
    """
    predicted = np.array([max(0, len(text) - 1) for text in texts])
    counts = -(-predicted // window)
    starts = (np.cumsum(counts) - counts) * window
    x = np.full(counts.sum() * window, PADDING, np.uint8)
    y = np.full(counts.sum() * window, NOTHING, np.int16)
    for text, start, many in zip(texts, starts, predicted, strict=True):
        x[start : start + many] = text[:-1]
        y[start : start + many] = text[1:]
    source = np.repeat(np.arange(len(texts), dtype=np.int32), counts)
    return x.reshape(-1, window), y.reshape(-1, window), source


@cache
def _roles() -> list[tuple[str, list[str]]]:
    """The name and the lines of every role."""
    with opened(FILE, "rt") as file:
        rows = [json.loads(line) for line in file]
    return [(f"{row['play']}/{row['role']}", row["lines"]) for row in rows]
