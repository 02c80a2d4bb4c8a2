"""Name order: the one order of class names, whether they were columns, arrays or folders."""

from __future__ import annotations

import math
from collections.abc import Sequence


def name_order(names: Sequence[str]) -> list[int]:
    """Return the places of names in order: by number if all names are numbers, else by letter.

    >>> names = ["10", "2", "9"]
    >>> [names[i] for i in name_order(names)]
    ['2', '9', '10']
    >>> [["b", "10", "a"][i] for i in name_order(["b", "10", "a"])]
    ['10', 'a', 'b']
    """
    numbers = [_number(name) for name in names]
    if all(math.isfinite(number) for number in numbers):
        return sorted(range(len(names)), key=lambda i: (numbers[i], names[i]))
    return sorted(range(len(names)), key=lambda i: names[i])


def _number(name: str) -> float:
    try:
        return float(name)
    except ValueError:
        return math.nan
