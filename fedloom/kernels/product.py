"""Product: the code of C = A·B, for kernels that multiply matrices.

A tile of C, a few rows of a few vectors, stays in registers while the sum over the inner axis runs. Rows and the inner
axis are divided into blocks, so that what a block reads stays in the processor's caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fedloom.kernels.emitter import INT, Emitter, Value
from fedloom.kernels.gather import REGISTERS, parts
from fedloom.kernels.rows import Piece

SPAN = {16: 4, 8: 2}
"""Vector width → the most vectors in a row of a tile."""
ROWS, INNER = 240, 256
"""The most rows, and places of the inner axis, in a block."""


@dataclass(frozen=True)
class Matrix:
    """A matrix in memory: its first element, and how far neighbours in a column and in a row are from each other."""

    array: Value
    first: Value
    down: int
    right: int = 1

    def at(self, e: Emitter, row: Value, column: Value) -> Value:
        """Return the place of an element."""
        return e.integer(0, (1, self.first), (self.down, row), (self.right, column))


@dataclass(frozen=True)
class Size:
    """The numbers of rows and columns of a product, and of the places that are summed over."""

    rows: int
    columns: int
    inner: int

    def __str__(self) -> str:
        return f"{self.rows}_{self.columns}_{self.inner}"


def transposed(name: str, size: Size, width: int) -> str:
    """Return the program of Aᵀ·B, where A and B have a row for every place that is summed over."""
    e, zero = Emitter(name, 2, width), INT(0)
    a, b = Matrix(e.arguments[0], zero, 1, size.rows), Matrix(e.arguments[1], zero, size.columns)
    product(e, size, a, b, Matrix(e.result, zero, size.columns))
    return e.finish()


def product(e: Emitter, size: Size, a: Matrix, b: Matrix, c: Matrix, *, adds: bool = False) -> None:
    """Emit C = A·B, or C = C + A·B if it ``adds``. The rows of B and C are contiguous."""
    for start, depth, adding in ((0, min(size.inner, INNER), adds), (INNER, size.inner - INNER, True)):
        for k, places in every(e, depth, INNER, start):
            for i, rows in every(e, size.rows, ROWS):
                for j, columns in every(e, size.columns, SPAN[e.width] * e.width):
                    vectors = -(-columns // e.width)
                    for t, height in every(e, rows, REGISTERS[e.width] // vectors):
                        row = e.integer(0, (1, i), (1, t))
                        tile = Tile(height, columns, places, adding)
                        _tile(e, tile, a.at(e, row, k), b.at(e, k, j), c.at(e, row, j), a, b, c)


def every(e: Emitter, size: int, part: int, start: int = 0) -> Iterator[tuple[Value, int]]:
    """Emit loops over parts of an axis; yield the first place of a part and its size."""
    for one, many in parts(max(size, 0), part):
        with e.loop(0, many) as turn:
            yield e.integer(start, (one, turn)), one
        start += one * many


@dataclass(frozen=True)
class Tile:
    """What stays in registers: so many rows of so many columns, a sum over so many places."""

    rows: int
    columns: int
    inner: int
    adds: bool

    def pieces(self, width: int) -> list[tuple[Piece, ...]]:
        """Return the columns of each vector."""
        sizes = [one for one, many in parts(self.columns, width) for _ in range(many)]
        return [((v * width, (1 << one) - 1),) for v, one in enumerate(sizes)]


def _tile(e: Emitter, tile: Tile, at_a: Value, at_b: Value, at_c: Value, a: Matrix, b: Matrix, c: Matrix) -> None:
    """Emit a tile of the product, from the places of its first elements on."""
    pieces = tile.pieces(e.width)
    places = [(e.integer(r * c.down, (1, at_c)), piece) for r in range(tile.rows) for piece in pieces]

    def turn(k: Value, sums: list[Value]) -> list[Value]:
        line = [e.load(b.array, e.integer(0, (1, at_b), (b.down, k)), piece) for piece in pieces]
        found = []
        for r in range(tile.rows):
            one = e.broadcast(a.array, e.integer(r * a.down, (1, at_a), (a.right, k)))
            found += [e.multiply_add(sums[r * len(pieces) + v], part, one) for v, part in enumerate(line)]
        return found

    for total, (place, piece) in zip(e.fold(0, tile.inner, [e.zero()] * len(places), turn), places, strict=True):
        whole = e.b.fadd(total, e.load(c.array, place, piece)) if tile.adds else total
        e.store(whole, c.array, place, piece)
