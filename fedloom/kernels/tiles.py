"""Tiles: parts of matrices whose sums of products stay in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fedloom.kernels.emitter import INT, Emitter, Value
from fedloom.kernels.rows import Piece

SUMS = {16: 24, 8: 8}
"""Width → the sums that fit into registers beside what is multiplied."""
VECTORS = {16: 4, 8: 2}
"""Width → the vectors of a row of a tile."""
Columns = tuple[Value, list[tuple[Piece, ...] | None]]
"""The first of some columns, and of each vector from there on the lanes that there are; None if all."""


def multiply(
    e: Emitter,
    sums: list[Value],
    start: int | Value,
    stop: int | Value,
    rows: Callable[[Value], list[Value]],
    columns: Callable[[Value], list[Value]],
) -> list[Value]:
    """Emit sums[r, v] += Σₖ rows(k)[r] · columns(k)[v], k from start to stop."""

    def turn(k: Value, sums: list[Value]) -> list[Value]:
        right = columns(k)
        return [e.multiply_add(total, left, vector) for left, row in zip(rows(k), parts(sums, len(right)), strict=True)
                for total, vector in zip(row, right, strict=True)]  # fmt: skip

    return e.fold(start, stop, sums, turn)


def parts(values: list[Value], size: int) -> list[list[Value]]:
    """Return a list in parts of a size."""
    return [values[i : i + size] for i in range(0, len(values), size)]


def part(lanes: int) -> tuple[Piece, ...]:
    """Return the first lanes of a vector."""
    return ((0, (1 << lanes) - 1),)


def tiles(e: Emitter, many: int, most: int) -> Iterator[tuple[Value, int]]:
    """Emit loops over tiles whose sizes differ by one at most, and yield the first of each and how many there are."""
    count = -(-many // most)
    small, larger = divmod(many, count)
    middle = larger * (small + 1)
    for start, stop, size in ((0, middle, small + 1), (middle, many, small)):
        if start < stop:
            with e.loop(start, stop, size) as first:
                yield first, size


def column_tiles(e: Emitter, columns: int, most: int | None = None) -> Iterator[Columns]:
    """Emit loops over tiles of vectors of columns; columns that fill no vector are a tile of their own."""
    whole, left = divmod(columns, e.width)
    if whole:
        for first, many in tiles(e, whole, most or VECTORS[e.width]):
            yield e.integer(0, (e.width, first)), [None] * many
    if left:
        yield INT(whole * e.width), [part(left)]
