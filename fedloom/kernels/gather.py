"""Gather: kernels for the forward pass and for the gradient of the images, with the batch in the vector lanes.

Both compute, for every group of channels,

    out[o, q, u] = Σ_{kh, kw, c} in[c, row(q, kh), column(u, kw)] · w[kh, c, kw, o]

where each entry is a vector of images. A block of outputs, ``depth`` channels of ``span`` neighbouring columns, stays
in registers while the sum runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fedloom.kernels.emitter import Emitter, Value
from fedloom.kernels.shape import Shape

REGISTERS = {16: 24, 8: 10}
"""Vector width → accumulators that fit beside the operands: of 32 registers with AVX-512, of 16 with AVX2."""
Column = Callable[[int, int], int | None]
Row = Callable[[int, int], tuple[int, int] | None]


@dataclass(frozen=True)
class Sum:
    """The sum that a kernel computes for one group of channels.

    Args:
        batch: images.
        groups: groups of channels.
        inputs, outputs: channels of a group, of what is read and of the result.
        source: height and width of what is read.
        size: height and width of the result.
        kernel: height and width of the kernel.
        phases: rows of the result with the same remainder by this number read the same taps.
        row: (phase, tap) → (a, b), so that the q-th row of the phase reads row a·q + b; None if it reads none.
        column: (column of the result, tap) → the column it reads; None if that is outside.
    """

    batch: int
    groups: int
    inputs: int
    outputs: int
    source: tuple[int, int]
    size: tuple[int, int]
    kernel: tuple[int, int]
    phases: int
    row: Row
    column: Column


def forward(name: str, shape: Shape, width: int) -> str:
    """Return the program of the forward pass: x (c, h, w, n) and w (group, kh, c, kw, o) → y (o, h, w, n)."""
    offset = lambda tap: tap * shape.dilation[0] - shape.padding[0]  # noqa: E731
    what = Sum(
        shape.batch, shape.groups, shape.inputs, shape.outputs, shape.image, shape.output, shape.kernel, 1,
        lambda phase, tap: (shape.strides[0], offset(tap)),  # noqa: ARG005
        lambda place, tap: shape.source(1, place, tap),
    )  # fmt: skip
    return program(name, what, width)


def image_gradient(name: str, shape: Shape, width: int) -> str:
    """Return the program of the gradient of images: d (o, h, w, n) and w (group, kh, o, kw, c) → dx (c, h, w, n)."""
    stride = shape.strides[0]

    def row(phase: int, tap: int) -> tuple[int, int] | None:
        at = phase + shape.padding[0] - tap * shape.dilation[0]
        return (1, at // stride) if at % stride == 0 else None

    what = Sum(
        shape.batch, shape.groups, shape.outputs, shape.inputs, shape.output, shape.image, shape.kernel, stride,
        row, lambda pixel, tap: shape.reader(1, pixel, tap),
    )  # fmt: skip
    return program(name, what, width)


@dataclass(frozen=True)
class Block:
    """Neighbouring columns of the result.

    Args:
        first: the first column.
        span: how many there are.
        base: the smallest column that they read.
        taps: (place in the block, tap, column that it reads, counted from ``base``).
    """

    first: int
    span: int
    base: int
    taps: tuple[tuple[int, int, int], ...]

    @property
    def pattern(self) -> tuple[int, tuple[tuple[int, int, int], ...]]:
        """Return what two blocks must share to be computed by the same instructions."""
        return self.span, self.taps


def blocks(what: Sum, span: int) -> list[Block]:
    """Return the columns of the result in blocks."""
    found = []
    for first in range(0, what.size[1], span):
        count = min(span, what.size[1] - first)
        reads = [(p, tap, at) for tap in range(what.kernel[1]) for p in range(count)
                 if (at := what.column(first + p, tap)) is not None]  # fmt: skip
        base = min((at for *_, at in reads), default=0)
        found.append(Block(first, count, base, tuple((p, tap, at - base) for p, tap, at in reads)))
    return found


def runs(every: list[Block]) -> Iterator[list[Block]]:
    """Yield runs of blocks with one pattern whose columns are equally far apart, so that a loop can compute them."""
    run: list[Block] = []
    for block in every:
        alike = run and block.pattern == run[0].pattern
        if alike and len(run) > 1:
            alike = block.base - run[-1].base == run[1].base - run[0].base
        if run and not alike:
            yield run
            run = []
        run.append(block)
    if run:
        yield run


def tile(outputs: int, columns: int, width: int) -> tuple[int, int]:
    """Return how many channels and columns of the result stay in registers: the fewest loads for each multiplication.

    >>> tile(16, 32, 16), tile(16, 32, 8), tile(1, 32, 16)
    ((4, 6), (2, 5), (1, 8))
    """
    room, best = REGISTERS[width], (float("inf"), 1, 1)
    for depth in range(1, min(outputs, room) + 1):
        for span in range(1, min(columns, room // depth, 8) + 1):
            pieces = [depth] * (outputs // depth) + ([outputs % depth] if outputs % depth else [])
            loads = sum(piece + span for piece in pieces) / (outputs * span)
            latency = sum(max(1.0, 8 / (piece * span)) * piece for piece in pieces) / outputs
            best = min(best, (loads + latency, depth, span))
    return best[1], best[2]


def program(name: str, what: Sum, width: int) -> str:
    """Return the program of a kernel as LLVM IR."""
    e = Emitter(name, 2, width)
    depth, span = tile(what.outputs, what.size[1], width)
    pieces = [(0, what.outputs // depth, depth)]
    if what.outputs % depth:
        pieces.append((what.outputs // depth * depth, 1, what.outputs % depth))
    every = list(runs(blocks(what, span)))
    with e.loop(0, what.groups) as group:
        for phase in range(what.phases):
            with e.loop(0, len(range(phase, what.size[0], what.phases))) as turn:
                for run in every:
                    with e.loop(0, len(run)) as j, e.loop(0, what.batch // width) as lane:
                        for start, count, channels in pieces:
                            with e.loop(0, count) as piece:
                                out = e.integer(start, (channels, piece))
                                _block(e, what, run, channels, group, phase, turn, j, lane, out)
    return e.finish()


def _block(
    e: Emitter, what: Sum, run: list[Block], channels: int, group: Value, phase: int, turn: Value, j: Value,
    lane: Value, out: Value,
) -> None:  # fmt: skip
    """Emit one block of the result: ``channels`` channels from ``out`` on, of the j-th block of a run."""
    block = run[0]
    (height, width), (rows, columns) = what.source, what.size
    kh, kw = what.kernel
    far, step = (run[1].first - block.first, run[1].base - block.base) if len(run) > 1 else (0, 0)
    n, lanes = what.batch, e.width
    sums = [e.zero()] * (channels * block.span)
    x, w = e.arguments
    weights = e.integer(0, (kh * what.inputs * kw * what.outputs, group), (1, out))
    for tap in range(kh):
        if (line := what.row(phase, tap)) is None:
            continue
        row = e.integer(line[1], (line[0], turn))

        def inside(sums: list[Value], row: Value = row, tap: int = tap) -> list[Value]:
            first = e.integer(block.base * n, (what.inputs * height * width * n, group), (width * n, row),
                              (step * n, j), (lanes, lane))  # fmt: skip

            def channel(c: Value, sums: list[Value]) -> list[Value]:
                at = e.integer(0, (1, first), (height * width * n, c))
                of = e.integer(tap * what.inputs * kw * what.outputs, (1, weights), (kw * what.outputs, c))
                return _taps(e, block, channels, x, w, at, of, n, what.outputs, sums)

            return e.fold(0, what.inputs, sums, channel)

        sums = e.when(e.inside(row, height), sums, inside)
    to = e.integer(block.first * n, (what.outputs * rows * columns * n, group), (rows * columns * n, out),
                   (what.phases * columns * n, turn), (far * n, j), (lanes, lane))  # fmt: skip
    to = e.integer(phase * columns * n, (1, to))
    for o in range(channels):
        for p in range(block.span):
            e.store(sums[o * block.span + p], e.result, e.integer(o * rows * columns * n + p * n, (1, to)))


def _taps(
    e: Emitter, block: Block, channels: int, x: Value, w: Value, at: Value, of: Value, n: int, outputs: int,
    sums: list[Value],
) -> list[Value]:  # fmt: skip
    """Emit the multiplications of one row and input channel."""
    sums, columns = list(sums), dict[int, Value]()
    for tap in dict.fromkeys(tap for _, tap, _ in block.taps):
        reads = [(p, column) for p, t, column in block.taps if t == tap]
        for _, column in reads:
            if column not in columns:
                columns[column] = e.load(x, e.integer(column * n, (1, at)))
        for o in range(channels):
            weight = e.broadcast(w, e.integer(tap * outputs + o, (1, of)))
            for p, column in reads:
                sums[o * block.span + p] = e.multiply_add(sums[o * block.span + p], columns[column], weight)
    return sums
