"""ReadAs: how a column of a table was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

MANY = 24  # columns above which neighbours that are read alike share a line


@dataclass(frozen=True)
class ReadAs:
    """How one column of a table was read.

    Arguments:
        column: its name.
        read_as: ``number``, ``category, 3 texts``, ``date (days, weekday)``, ``label, 2 classes``, ``dropped``, …
        example: its first cell that is not missing, as it stands in the file.
        missing: how many of its cells are missing.
    """

    column: str
    read_as: str
    example: str = ""
    missing: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the record as a dictionary that JSON can hold."""
        return asdict(self)

    @property
    def told(self) -> str:
        """Return how the column was read and how many of its cells are missing.

        >>> ReadAs("height", "number", "1.5", missing=2).told
        'number, 2 missing'
        """
        return self.read_as + (f", {self.missing:,} missing" if self.missing else "")


def lines(columns: Sequence[ReadAs]) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of a table for people: column, read as, example.

    In a table of more than 24 columns, neighbours that are read alike share a line.

    >>> list(lines([ReadAs("age", "number", "40"), ReadAs("ward", "category, 2 texts", "er")]))
    [('age', 'number', '40'), ('ward', 'category, 2 texts', 'er')]
    """
    if len(columns) <= MANY:
        yield from ((c.column, c.told, c.example) for c in columns)
        return
    for told, alike in groupby(columns, key=lambda c: c.told):
        first, *others = alike
        more = f" to {others[-1].column} ({len(others) + 1:,} columns)" if others else ""
        yield first.column + more, told, first.example
