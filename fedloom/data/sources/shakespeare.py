"""Shakespeare: all 37 plays, shipped inside the package; a role in a play is a user, the task the next character.

The task is that of McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data",
section 3: roles with at least two lines, of each role the first 80 % of its lines for training and the last 20 %, at
least one line, for testing; an example is a line, and after each of its characters the next is predicted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.files import opened
from fedloom.data.vocabulary import NAMES, PADDING, SIZE, encode
from fedloom.errors import require, whole

if TYPE_CHECKING:
    from jaxtyping import Int

FILE = Path(__file__).parents[1] / "files" / "shakespeare" / "roles.jsonl.gz"
NOTHING = -1  # in y, where there is no next character


@cache
def shakespeare(longest: int = 80, least_lines: int = 2) -> Dataset:
    """Shakespeare's plays: predict each next character of what a role says.

    An example is a line: ``x`` has the codes of its characters, ``y`` those of the characters that follow each, the
    last of which is a newline. Both are padded to the same length, ``x`` with 0, ``y`` with -1. The last
    ``max(1, lines // 5)`` lines of a role are its test set.

    Arguments:
        longest: characters in an example; a longer line becomes several (none has more than 77).
        least_lines: roles with fewer lines than this are left out.

    >>> shakespeare()
    Dataset('shakespeare': 82,339 train, 0 validation, 20,167 test examples of 1,216 users)
    """
    whole("longest", longest, 1)
    whole("least_lines", least_lines, 2)
    roles = [(name, lines) for name, lines in _roles() if len(lines) >= least_lines]
    most = max(len(lines) for _, lines in _roles())
    require(bool(roles), "least_lines", f"at most {most:,}, the lines of the longest role", least_lines)
    x, y, line = pieces([text for _, lines in roles for text in lines], longest)
    for column in (x, y):
        column.setflags(write=False)  # everybody who asks gets these
    many = np.array([len(lines) for _, lines in roles])
    role = np.repeat(np.arange(len(roles), dtype=np.int32), many)
    left = np.repeat(np.cumsum(many), many) - np.arange(many.sum())  # lines of its role from this one on
    testing = (left <= np.maximum(1, many // 5)[role])[line]
    return Dataset(
        name="shakespeare",
        columns={"x": x, "y": y},
        classes=SIZE,
        train=np.flatnonzero(~testing),
        test=np.flatnonzero(testing),
        users=role[line],
        user_names=tuple(name for name, _ in roles),
        class_names=NAMES,
        images=False,
        note="an example is a line; of each role the last fifth of its lines is for testing",
    )


def pieces(
    lines: Sequence[str], longest: int
) -> tuple[Int[np.ndarray, "n longest"], Int[np.ndarray, "n longest"], Int[np.ndarray, " n"]]:
    """Lines, cut where they are too long: their characters, those that follow, and the line that each piece is of.

    >>> from fedloom.data.vocabulary import decode
    >>> x, y, line = pieces(["To be", "or"], longest=3)
    >>> [decode(row[row > 0]) for row in x], [decode(row[row > 0]) for row in y], line.tolist()
    (['To ', 'be', 'or'], ['o b', 'e\\n', 'r\\n'], [0, 0, 1])
    """
    codes = encode("".join(f"{line}\n" for line in lines))
    sizes = np.array([len(line) for line in lines])
    begins = np.cumsum(sizes + 1) - (sizes + 1)
    counts = -(-sizes // longest)
    source = np.repeat(np.arange(len(lines), dtype=np.int32), counts)
    within = longest * (np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts))
    place = np.arange(longest)
    real = place < (sizes[source] - within)[:, None]
    at = np.where(real, (begins[source] + within)[:, None] + place, 0)
    x = np.where(real, codes[at], np.int8(PADDING))
    y = np.where(real, codes[at + 1].astype(np.int16), NOTHING)
    return x, y, source


@cache
def _roles() -> list[tuple[str, list[str]]]:
    """The name and the lines of every role."""
    with opened(FILE, "rt") as file:
        rows = [json.loads(line) for line in file]
    return [(f"{row['play']}/{row['role']}", row["lines"]) for row in rows]
