"""Product: tiles of matrix products whose sums stay in registers, and the kernel of a product Aᵀ·B."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fedloom.kernels.emitter import INT, Emitter, Value
from fedloom.kernels.rows import Piece

SUMS = {16: 24, 8: 8}
"""Width → the sums that fit into registers beside what is multiplied."""
VECTORS = {16: 4, 8: 2}
"""Width → the vectors of a row of a tile."""
BLOCK = 64
"""Rows of A and B that are read before the sums of a tile are written."""
Columns = tuple[Value, list[tuple[Piece, ...] | None]]
"""The first of some columns, and of each vector from there on the lanes that there are; None if all."""


@dataclass(frozen=True)
class Product:
    """C = Aᵀ·B of A (rows, left) and B (rows, right)."""

    rows: int
    left: int
    right: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.left}x{self.right}"


def transposed_product(name: str, shape: Product, width: int) -> str:
    """Return the program: A, B → Aᵀ·B."""
    e = Emitter(name, 2, width)
    _block(e, shape, INT(0), INT(min(BLOCK, shape.rows)), fresh=True)
    with e.loop(BLOCK, shape.rows, BLOCK) as first:
        end = e.integer(BLOCK, (1, first))
        end = e.b.select(e.b.icmp_signed("<", end, INT(shape.rows)), end, INT(shape.rows))
        _block(e, shape, first, end, fresh=False)
    return e.finish()


def _block(e: Emitter, shape: Product, first: Value, end: Value, fresh: bool) -> None:
    """Emit the sums over some rows; the first ones begin at zero, the others at what is there."""
    for column, pieces in column_tiles(e, shape.right):
        for row, many in tiles(e, shape.left, SUMS[e.width] // len(pieces)):
            of = [(r, v) for r in range(many) for v in range(len(pieces))]
            places = [e.integer(r * shape.right + v * e.width, (shape.right, row), (1, column)) for r, v in of]
            sums = [e.zero() if fresh else e.load(e.result, at, pieces[v])
                    for at, (_, v) in zip(places, of, strict=True)]  # fmt: skip
            found = _summed(e, shape, (first, end), (row, many), (column, pieces), sums)
            for at, (_, v), total in zip(places, of, found, strict=True):
                e.store(total, e.result, at, pieces[v])


def _summed(
    e: Emitter, shape: Product, between: tuple[Value, Value], lines: tuple[Value, int], vectors: Columns,
    sums: list[Value],
) -> list[Value]:  # fmt: skip
    """Emit the sums of one tile."""
    (left, right), (row, many), (column, pieces) = e.arguments, lines, vectors
    rows = lambda k: [e.broadcast(left, e.integer(r, (shape.left, k), (1, row))) for r in range(many)]  # noqa: E731
    columns = lambda k: [e.load(right, e.integer(v * e.width, (shape.right, k), (1, column)), p)  # noqa: E731
                         for v, p in enumerate(pieces)]  # fmt: skip
    return multiply(e, sums, *between, rows, columns)


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
