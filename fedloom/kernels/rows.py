"""Rows: how the columns of an image row, each with all images of the batch, fall into vector registers.

A row is ``columns × batch`` numbers, one column after another. Where neighbours of the result read neighbours of the
source, vectors run along the row however many images there are: with 8 images, a register of 16 holds two columns.
Where they do not (strides), a vector holds whole columns, or a part of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Lane = tuple[int, int] | None
"""The column and the image that a lane of a vector computes, or None if it computes nothing."""
Piece = tuple[int, int]
"""Neighbouring numbers in memory: where a vector's first lane would be, and the lanes that there are, as bits."""
Line = Callable[[int], tuple[int, int] | None]
"""Tap → (a, b), so that the q-th place reads place a·q + b; None if it reads none."""


@dataclass(frozen=True)
class Row:
    """The columns of the result that a kernel computes alike, and where they read and write.

    Args:
        columns: how many there are.
        batch: images.
        width: numbers in a register.
        source: columns of what is read.
        taps: columns of the kernel.
        line: the columns that they read.
        every, first: the q-th one is column every·q + first of the result.
    """

    columns: int
    batch: int
    width: int
    source: int
    taps: int
    line: Line
    every: int = 1
    first: int = 0

    @property
    def step(self) -> int:
        """Return the distance of what neighbouring columns read."""
        return next((line[0] for tap in range(self.taps) if (line := self.line(tap)) is not None), 1)

    @property
    def vectors(self) -> list[tuple[Lane, ...]]:
        """Return what each vector computes.

        >>> Row(3, 2, 4, 3, 1, lambda tap: (1, tap)).vectors
        [((0, 0), (0, 1), (1, 0), (1, 1)), ((2, 0), (2, 1), None, None)]
        """
        if self.step == self.every == 1:
            parts = [[divmod(e, self.batch) for e in range(self.columns * self.batch)]]
        else:
            together = max(1, self.width // self.batch)
            parts = [[(q, n) for q in range(first, min(first + together, self.columns)) for n in range(self.batch)]
                     for first in range(0, self.columns, together)]  # fmt: skip
        cut = [part[at : at + self.width] for part in parts for at in range(0, len(part), self.width)]
        return [(*lanes, *[None] * (self.width - len(lanes))) for lanes in cut]

    @property
    def filled(self) -> float:
        """Return the share of lanes that compute something."""
        return self.columns * self.batch / max(1, self.width * len(self.vectors))

    def reads(self, lanes: Sequence[Lane], tap: int) -> tuple[Piece, ...]:
        """Return where a vector reads through a tap: nothing outside the image."""
        line = self.line(tap)
        if line is None:
            return ()
        at = [None if lane is None else line[0] * lane[0] + line[1] for lane in lanes]
        return pieces([None if lane is None or column is None or not 0 <= column < self.source
                       else column * self.batch + lane[1] for lane, column in zip(lanes, at, strict=True)])  # fmt: skip

    def writes(self, lanes: Sequence[Lane]) -> tuple[Piece, ...]:
        """Return where a vector of the result belongs."""
        return pieces([None if lane is None else (self.every * lane[0] + self.first) * self.batch + lane[1]
                       for lane in lanes])  # fmt: skip


def pieces(places: Sequence[int | None]) -> tuple[Piece, ...]:
    """Return the places in memory of a vector's lanes as pieces of neighbours.

    >>> pieces([4, 5, 9, None])
    ((4, 3), (7, 4))
    """
    found: dict[int, int] = {}
    for lane, place in enumerate(places):
        if place is not None:
            found[place - lane] = found.get(place - lane, 0) | 1 << lane
    return tuple(found.items())


@dataclass(frozen=True)
class Block:
    """Neighbouring vectors of a row.

    Args:
        base, to: where the first vector reads and writes; pieces are counted from there.
        reads: (vector of the block, tap, pieces).
        writes: the pieces of each vector.
    """

    base: int
    to: int
    reads: tuple[tuple[int, int, tuple[Piece, ...]], ...]
    writes: tuple[tuple[Piece, ...], ...]

    @property
    def span(self) -> int:
        """Return the number of vectors."""
        return len(self.writes)

    def is_like(self, other: Block) -> bool:
        """Return True if the same instructions compute both."""
        return (self.reads, self.writes) == (other.reads, other.writes)


def blocks(row: Row, span: int) -> list[Block]:
    """Return the vectors of a row in blocks."""
    found, every = [], row.vectors
    for first in range(0, len(every), span):
        vectors = every[first : first + span]
        column, image = vectors[0][0] or (0, 0)
        base = row.step * column * row.batch + image
        to = (row.every * column + row.first) * row.batch + image
        reads = [(v, tap, _shifted(row.reads(lanes, tap), base)) for tap in range(row.taps)
                 for v, lanes in enumerate(vectors)]  # fmt: skip
        writes = tuple(_shifted(row.writes(lanes), to) for lanes in vectors)
        found.append(Block(base, to, tuple(read for read in reads if read[2]), writes))
    return found


def _shifted(every: tuple[Piece, ...], base: int) -> tuple[Piece, ...]:
    return tuple((place - base, mask) for place, mask in every)


def runs(every: list[Block]) -> Iterator[list[Block]]:
    """Yield runs of like blocks that are equally far apart, so that a loop can compute them."""
    run: list[Block] = []
    for block in every:
        alike = bool(run) and block.is_like(run[0])
        if alike and len(run) > 1:
            apart = lambda a, b: (b.base - a.base, b.to - a.to)  # noqa: E731
            alike = apart(run[-1], block) == apart(run[0], run[1])
        if run and not alike:
            yield run
            run = []
        run.append(block)
    if run:
        yield run
