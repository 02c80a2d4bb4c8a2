"""Weight gradient: a kernel that sums over images and places.

    dw[kh, kw, c, o] = Σ_{q, u, n} d[o, q, u, n] · x[c, row(q, kh), column(u, kw), n]

Some output channels, input channels and the taps of one row of the kernel stay in registers while the sum runs over a
few rows; then the lanes are added up.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.kernels.emitter import Emitter, Value
from fedloom.kernels.gather import LATENCY, REGISTERS, parts, result_of
from fedloom.kernels.rows import Block, Row, blocks, runs
from fedloom.kernels.shape import Shape

VECTORS = 128
"""Vectors of the gradient of a channel that are read before the lanes of the accumulators are added up."""


@dataclass(frozen=True)
class Tile:
    """What stays in registers: output channels, input channels, and sums of their own for neighbouring vectors."""

    outputs: int
    inputs: int
    span: int


def tile(shape: Shape, vectors: int, width: int) -> Tile:
    """Return the tile with the fewest loads for each multiplication."""
    room, taps, best, found = REGISTERS[width], shape.kernel[1], float("inf"), Tile(1, 1, 1)
    for outputs in (o for o in range(1, shape.outputs + 1) if shape.outputs % o == 0):
        for inputs in (i for i in range(1, shape.inputs + 1) if shape.inputs % i == 0):
            for span in range(1, min(vectors, 8) + 1):
                used = outputs * inputs * taps * span
                if used > room and (outputs, inputs, span) != (1, 1, 1):
                    continue
                loads = (outputs + inputs * taps) * span / used
                cost = loads + max(1.0, LATENCY / used) + 0.05 * (span - 1)
                if cost < best:
                    best, found = cost, Tile(outputs, inputs, span)
    return found


def weight_gradient(name: str, shape: Shape, width: int) -> str:
    """Return the program: d (o, h, w, n) and x (c, h, w, n) → dw in the weights' own order."""
    e = Emitter(name, 2, width)
    row = result_of(shape).row(0, width)
    size = tile(shape, len(row.vectors), width)
    rows, many = shape.output[0], max(1, VECTORS // len(row.vectors))
    _clear(e, shape)
    with (
        e.loop(0, shape.groups) as group,
        e.loop(0, rows, many) as first,
        e.loop(0, shape.outputs // size.outputs) as o,
        e.loop(0, shape.inputs // size.inputs) as c,
        e.loop(0, shape.kernel[0]) as tap,
    ):
        end = e.integer(many, (1, first))
        end = e.b.select(e.b.icmp_signed("<", end, e.integer(rows)), end, e.integer(rows))
        _tile(e, shape, size, row, group, first, end, o, c, tap)
    return e.finish()


def _clear(e: Emitter, shape: Shape) -> None:
    """Emit zeros for all weights."""
    entries, place = shape.steps[shape.order[0]] * shape.weights[0], 0
    for one, many in parts(entries, e.width):
        with e.loop(0, many) as i:
            e.store(e.zero(), e.result, e.integer(place, (one, i)), ((0, (1 << one) - 1),))
        place += one * many


def _tile(
    e: Emitter, shape: Shape, size: Tile, row: Row, group: Value, first: Value, end: Value, o: Value, c: Value,
    tap: Value,
) -> None:  # fmt: skip
    """Emit the sums of one tile over some rows, and add them to the result."""
    n, steps = shape.batch, shape.steps
    (height, width), (rows, columns) = shape.image, shape.output
    used = size.outputs * size.inputs * shape.kernel[1]
    d = e.integer(0, (shape.outputs * rows * columns * n, group), (size.outputs * rows * columns * n, o))
    x = e.integer(0, (shape.inputs * height * width * n, group), (size.inputs * height * width * n, c))

    def line(q: Value, sums: list[Value]) -> list[Value]:
        source = e.integer(-shape.padding[0], (shape.strides[0], q), (shape.dilation[0], tap))

        def inside(sums: list[Value]) -> list[Value]:
            of = e.integer(0, (1, d), (columns * n, q))
            at = e.integer(0, (1, x), (width * n, source))
            for run in runs(blocks(row, size.span)):
                sums = _run(e, shape, size, run, of, at, sums)
            return sums

        return e.when(e.inside(source, height), sums, inside)

    sums = e.fold(first, end, [e.zero()] * (used * size.span), line)
    to = e.integer(0, (steps["g"], group), (size.outputs * steps["o"], o), (size.inputs * steps["i"], c),
                   (steps["h"], tap))  # fmt: skip
    for k in range(used):
        i, t, j = k // (shape.kernel[1] * size.outputs), k // size.outputs % shape.kernel[1], k % size.outputs
        total = sums[k]
        for v in range(1, size.span):
            total = e.b.fadd(total, sums[v * used + k])
        e.add(e.total(total), e.result, e.integer(i * steps["i"] + t * steps["w"] + j * steps["o"], (1, to)))


def _run(e: Emitter, shape: Shape, size: Tile, run: list[Block], d: Value, x: Value, sums: list[Value]) -> list[Value]:
    """Emit the multiplications of a run of blocks of one row."""
    block = run[0]
    if len(run) == 1:
        return _block(e, shape, size, block, e.integer(block.to, (1, d)), e.integer(block.base, (1, x)), sums)
    far, away = run[1].base - block.base, run[1].to - block.to

    def turn(j: Value, sums: list[Value]) -> list[Value]:
        of, at = e.integer(block.to, (1, d), (away, j)), e.integer(block.base, (1, x), (far, j))
        return _block(e, shape, size, block, of, at, sums)

    return e.fold(0, len(run), sums, turn)


def _block(e: Emitter, shape: Shape, size: Tile, block: Block, d: Value, x: Value, sums: list[Value]) -> list[Value]:
    """Emit the multiplications of one block, each vector of which has sums of its own."""
    sums, taps = list(sums), shape.kernel[1]
    used = size.outputs * size.inputs * taps
    gradients = [[e.load(e.arguments[0], e.integer(j * shape.output[0] * shape.output[1] * shape.batch, (1, d)), pieces)
                  for j in range(size.outputs)] for pieces in block.writes]  # fmt: skip
    for i in range(size.inputs):
        at, held = e.integer(i * shape.image[0] * shape.image[1] * shape.batch, (1, x)), {}
        for v, tap, pieces in block.reads:
            if pieces not in held:
                held[pieces] = e.load(e.arguments[1], at, pieces)
            for j in range(size.outputs):
                k = v * used + (i * taps + tap) * size.outputs + j
                sums[k] = e.multiply_add(sums[k], gradients[v][j], held[pieces])
    return sums
