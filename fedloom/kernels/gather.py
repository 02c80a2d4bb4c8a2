"""Gather: kernels for the forward pass and for the gradient of the images.

Both compute, for every group of channels,

    out[o, q, u] = Σ_{kh, kw, c} in[c, row(q, kh), column(u, kw)] · w[kh, kw, c, o]

for all images. A tile of the result, ``depth`` channels of ``rows`` rows of ``span`` vectors, stays in registers while
the sum runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedloom.kernels.emitter import Emitter, Value
from fedloom.kernels.rows import Block, Line, Piece, Row, blocks, runs
from fedloom.kernels.shape import Shape

REGISTERS = {16: 24, 8: 10}
"""Vector width → accumulators that fit beside the operands: of 32 registers with AVX-512, of 16 with AVX2."""
LATENCY = 8
"""Fused multiply-adds that a core has in flight at the same time."""


@dataclass(frozen=True)
class Sum:
    """The sum that a kernel computes.

    Args:
        batch: images.
        groups: groups of channels.
        inputs, outputs: channels of a group, of what is read and of the result.
        source: height and width of what is read.
        size: height and width of the result.
        kernel: height and width of the kernel.
        phases: rows and columns of the result with the same remainder by these numbers read the same taps.
        line: (axis, phase) → which places the rows or columns of a phase read.
        steps: distance in memory between the weights of neighbouring h, w, channels of what is read, channels of the
            result, and groups.
    """

    batch: int
    groups: int
    inputs: int
    outputs: int
    source: tuple[int, int]
    size: tuple[int, int]
    kernel: tuple[int, int]
    phases: tuple[int, int]
    line: Callable[[int, int], Line]
    steps: tuple[int, ...]

    def row(self, phase: int, width: int) -> Row:
        """Return the columns of a phase."""
        columns = len(range(phase, self.size[1], self.phases[1]))
        line = self.line(1, phase)
        return Row(columns, self.batch, width, self.source[1], self.kernel[1], line, self.phases[1], phase)


def forward(name: str, shape: Shape, width: int) -> str:
    """Return the program of the forward pass: x (c, h, w, n) and weights → y (o, h, w, n)."""
    return program(name, result_of(shape), width)


def result_of(shape: Shape) -> Sum:
    """Return the sum of the forward pass."""
    line = lambda axis, phase: lambda tap: (shape.strides[axis], tap * shape.dilation[axis] - shape.padding[axis])  # noqa: ARG005, E731
    steps = tuple(shape.steps[axis] for axis in "hwiog")
    return Sum(shape.batch, shape.groups, shape.inputs, shape.outputs, shape.image, shape.output, shape.kernel, (1, 1),
               line, steps)  # fmt: skip


def image_gradient(name: str, shape: Shape, width: int) -> str:
    """Return the program of the gradient of images: d (o, h, w, n) and weights → dx (c, h, w, n)."""
    return program(name, gradient_of(shape), width)


def gradient_of(shape: Shape) -> Sum:
    """Return the sum of the gradient of images."""

    def line(axis: int, phase: int) -> Line:
        def taken(tap: int) -> tuple[int, int] | None:
            at = phase + shape.padding[axis] - tap * shape.dilation[axis]
            return (1, at // shape.strides[axis]) if at % shape.strides[axis] == 0 else None

        return taken

    steps = tuple(shape.steps[axis] for axis in "hwoig")
    return Sum(shape.batch, shape.groups, shape.outputs, shape.inputs, shape.output, shape.image, shape.kernel,
               shape.strides, line, steps)  # fmt: skip


@dataclass(frozen=True)
class Tile:
    """What stays in registers: channels, rows and vectors of a row of the result."""

    depth: int
    rows: int
    span: int


def tile(outputs: int, rows: int, vectors: int, kernel: tuple[int, int], width: int) -> Tile:
    """Return the tile with which a row and channel are computed in the least time.

    >>> tile(16, 32, 64, (3, 3), 16), tile(1, 32, 64, (3, 3), 16)
    (Tile(depth=4, rows=1, span=6), Tile(depth=1, rows=4, span=6))
    """
    room, best, found = REGISTERS[width], float("inf"), Tile(1, 1, 1)
    for depth in range(1, min(outputs, room) + 1):
        for high in range(1, min(rows if depth == outputs else 1, room // depth, 8) + 1):
            for span in range(1, min(vectors, room // (depth * high), 8) + 1):
                cost = sum(
                    many_o * many_r * many_v * _time(o, r, v, kernel)
                    for o, many_o in parts(outputs, depth) for r, many_r in parts(rows, high)
                    for v, many_v in parts(vectors, span)
                )  # fmt: skip
                if cost < best:
                    best, found = cost, Tile(depth, high, span)
    return found


def _time(channels: int, rows: int, vectors: int, kernel: tuple[int, int]) -> float:
    """Return the time of a tile in multiplications, of which a core does as many at once as loads."""
    height, width = kernel
    multiplications = channels * rows * vectors * height * width
    loads = (rows + height - 1) * width * vectors + channels * rows * height * width
    return max(1.0, LATENCY / (channels * rows * vectors)) * multiplications + loads


def parts(size: int, part: int) -> list[tuple[int, int]]:
    """Return the sizes of the parts into which a size falls, and how many there are of each.

    >>> parts(7, 3), parts(2, 3)
    ([(3, 2), (1, 1)], [(2, 1)])
    """
    return [(one, many) for one, many in ((part, size // part), (size % part, 1)) if one and many]


def program(name: str, what: Sum, width: int) -> str:
    """Return the program of a kernel as LLVM IR."""
    e = Emitter(name, 2, width)
    for row_phase in range(what.phases[0]):
        height = len(range(row_phase, what.size[0], what.phases[0]))
        for column_phase in range(what.phases[1]):
            row = what.row(column_phase, width)
            if not height or not row.columns:
                continue
            size = tile(what.outputs, height, len(row.vectors), what.kernel, width)
            with e.loop(0, what.groups) as group:
                _phase(e, what, size, row_phase, height, blocks(row, size.span), group)
    return e.finish()


def _phase(e: Emitter, what: Sum, size: Tile, phase: int, height: int, every: list[Block], group: Value) -> None:
    """Emit the rows and columns of a phase, for one group of channels."""
    first_row = 0
    for high, many_rows in parts(height, size.rows):
        with e.loop(0, many_rows) as turn:
            q = e.integer(first_row, (high, turn))
            for run in runs(every):
                with e.loop(0, len(run)) as j:
                    first = 0
                    for depth, many in parts(what.outputs, size.depth):
                        with e.loop(0, many) as piece:
                            out = e.integer(first, (depth, piece))
                            _tile(e, what, Tile(depth, high, run[0].span), phase, run, group, q, j, out)
                        first += depth * many
        first_row += high * many_rows


def _tile(
    e: Emitter, what: Sum, size: Tile, phase: int, run: list[Block], group: Value, q: Value, j: Value, out: Value
) -> None:
    """Emit one tile: channels from ``out`` on, rows from the q-th on, columns of the j-th block of a run."""
    block, n = run[0], what.batch
    (height, width), (high, wide) = what.source, what.size
    far, away = (run[1].base - block.base, run[1].to - block.to) if len(run) > 1 else (0, 0)
    images, weights = e.arguments
    of = e.integer(0, (what.steps[4], group), (what.steps[3], out))
    reads: dict[int, list[tuple[int, int]]] = {}
    step = 1
    for tap in range(what.kernel[0]):
        if (line := what.line(0, phase)(tap)) is not None:
            step = line[0]
            for r in range(size.rows):
                reads.setdefault(step * r + line[1], []).append((r, tap))
    sums = [e.zero()] * (size.depth * size.rows * size.span)
    for at, users in sorted(reads.items()):
        row = e.integer(at, (step, q))

        def inside(sums: list[Value], row: Value = row, users: list[tuple[int, int]] = users) -> list[Value]:
            first = e.integer(block.base, (what.inputs * height * width * n, group), (width * n, row), (far, j))

            def channel(c: Value, sums: list[Value]) -> list[Value]:
                place = e.integer(0, (1, first), (height * width * n, c))
                weight = e.integer(0, (1, of), (what.steps[2], c))
                return _taps(e, what, size, block, users, images, weights, place, weight, sums)

            return e.fold(0, what.inputs, sums, channel)

        sums = e.when(e.inside(row, height), sums, inside)
    to = e.integer(block.to + phase * wide * n, (what.outputs * high * wide * n, group), (high * wide * n, out),
                   (what.phases[0] * wide * n, q), (away, j))  # fmt: skip
    for o in range(size.depth):
        for r in range(size.rows):
            for v in range(size.span):
                at = e.integer((o * high + r * what.phases[0]) * wide * n, (1, to))
                e.store(sums[(o * size.rows + r) * size.span + v], e.result, at, block.writes[v])


def _taps(
    e: Emitter, what: Sum, size: Tile, block: Block, users: list[tuple[int, int]], images: Value, weights: Value,
    place: Value, weight: Value, sums: list[Value],
) -> list[Value]:  # fmt: skip
    """Emit the multiplications of one row of one channel of what is read, for the (row, tap) that use it."""
    sums, held = list(sums), dict[tuple[Piece, ...], Value]()
    for tap in range(what.kernel[1]):
        reads = [(v, pieces) for v, t, pieces in block.reads if t == tap]
        for _, pieces in reads:
            if pieces not in held:
                held[pieces] = e.load(images, place, pieces)
        for r, line in users:
            for o in range(size.depth if reads else 0):
                at = e.integer(line * what.steps[0] + tap * what.steps[1] + o * what.steps[3], (1, weight))
                one = e.broadcast(weights, at)
                for v, pieces in reads:
                    k = (o * size.rows + r) * size.span + v
                    sums[k] = e.multiply_add(sums[k], held[pieces], one)
    return sums
