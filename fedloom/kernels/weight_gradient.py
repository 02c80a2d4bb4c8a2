"""Weight gradient: a kernel that sums over images and places, with the batch in the vector lanes.

    dw[kh, c, kw, o] = Σ_{q, u} d[o, q, u] · x[c, row(q, kh), column(u, kw)]

Each entry of the result is a vector, whose lanes the caller adds up. Some output channels, input channels and the taps
of one row of the kernel stay in registers while the sum runs over the columns of a few rows.
"""

from __future__ import annotations

from functools import partial

from fedloom.kernels.emitter import Emitter, Value
from fedloom.kernels.gather import REGISTERS
from fedloom.kernels.shape import Shape

COLUMNS = 64
"""Places of the result whose gradients are read before the accumulators are written back."""


def tile(shape: Shape, width: int) -> tuple[int, int]:
    """Return how many output and input channels stay in registers: the fewest loads for each multiplication."""
    room, taps, best = REGISTERS[width], shape.kernel[1], (float("inf"), 1, 1)
    for outputs in (o for o in range(1, shape.outputs + 1) if shape.outputs % o == 0):
        for inputs in (i for i in range(1, shape.inputs + 1) if shape.inputs % i == 0):
            used = outputs * inputs * taps
            if used <= room or (outputs, inputs) == (1, 1):
                loads = (outputs + inputs * taps) / used
                best = min(best, (loads + max(1.0, 8 / used), outputs, inputs))
    return best[1], best[2]


def weight_gradient(name: str, shape: Shape, width: int) -> str:
    """Return the program: d (o, h, w, n) and x (c, h, w, n) → dw (group, kh, c, kw, o, lanes)."""
    e = Emitter(name, 2, width)
    outputs, inputs = tile(shape, width)
    kh, kw = shape.kernel
    rows, columns = shape.output
    many = max(1, min(rows, COLUMNS // columns))  # rows of the result in one turn
    entries = shape.groups * kh * shape.inputs * kw * shape.outputs
    with e.loop(0, entries) as entry:
        e.store(e.zero(), e.result, e.integer(0, (width, entry)))
    with (
        e.loop(0, shape.groups) as group,
        e.loop(0, shape.batch // width) as lane,
        e.loop(0, -(-rows // many)) as turn,
        e.loop(0, shape.outputs // outputs) as o,
        e.loop(0, shape.inputs // inputs) as c,
        e.loop(0, kh) as tap,
    ):
        to = e.integer(0, (kh * shape.inputs * kw * shape.outputs, group), (shape.inputs * kw * shape.outputs, tap),
                       (inputs * kw * shape.outputs, c), (outputs, o))  # fmt: skip
        places = [(i * kw + t) * shape.outputs + j for i in range(inputs) for t in range(kw) for j in range(outputs)]
        at = [e.b.mul(e.integer(place, (1, to)), e.integer(width)) for place in places]
        sums = [e.load(e.result, place) for place in at]
        first = e.integer(0, (many, turn))
        end = e.integer(many, (1, first))
        end = e.b.select(e.b.icmp_signed("<", end, e.integer(rows)), end, e.integer(rows))

        def line(row: Value, sums: list[Value]) -> list[Value]:
            source = e.integer(-shape.padding[0], (shape.strides[0], row), (shape.dilation[0], tap))
            sum_up = partial(_row, e, shape, outputs, inputs, group, lane, o, c, row, source)
            return e.when(e.inside(source, shape.image[0]), sums, sum_up)

        for place, total in zip(at, e.fold(first, end, sums, line), strict=True):
            e.store(total, e.result, place)
    return e.finish()


def _row(
    e: Emitter, shape: Shape, outputs: int, inputs: int, group: Value, lane: Value, o: Value, c: Value, row: Value,
    source: Value, sums: list[Value],
) -> list[Value]:  # fmt: skip
    """Emit the sum over the columns of one row: those at the borders one by one, the others in a loop."""
    n, (height, width), (rows, columns) = shape.batch, shape.image, shape.output
    d = e.integer(0, (shape.outputs * rows * columns * n, group), (outputs * rows * columns * n, o), (columns * n, row),
                  (e.width, lane))  # fmt: skip
    x = e.integer(-shape.padding[1] * n, (shape.inputs * height * width * n, group), (inputs * height * width * n, c),
                  (width * n, source), (e.width, lane))  # fmt: skip
    whole = [all(shape.source(1, u, t) is not None for t in range(shape.kernel[1])) for u in range(columns)]
    first = whole.index(True) if any(whole) else columns
    last = columns - whole[::-1].index(True) if any(whole) else columns
    for u in range(first):
        sums = _place(e, shape, outputs, inputs, d, x, u, None, sums)
    if last > first:
        sums = e.fold(first, last, sums, lambda u, sums: _place(e, shape, outputs, inputs, d, x, 0, u, sums))
    for u in range(last, columns):
        sums = _place(e, shape, outputs, inputs, d, x, u, None, sums)
    return sums


def _place(
    e: Emitter, shape: Shape, outputs: int, inputs: int, d: Value, x: Value, u: int, at: Value | None, sums: list[Value]
) -> list[Value]:
    """Emit the multiplications of one column: of a loop, or the u-th, of which only taps inside the image count."""
    sums, n = list(sums), shape.batch
    (rows, columns), (height, width) = shape.output, shape.image
    gradients = [e.load(e.arguments[0], e.integer((j * rows * columns + u) * n, (1, d), (n, at)))
                 for j in range(outputs)]  # fmt: skip
    for i in range(inputs):
        for t in range(shape.kernel[1]):
            if at is None and shape.source(1, u, t) is None:
                continue
            place = (i * height * width + u * shape.strides[1] + t * shape.dilation[1]) * n
            pixel = e.load(e.arguments[1], e.integer(place, (1, x), (shape.strides[1] * n, at)))
            for j in range(outputs):
                k = (i * shape.kernel[1] + t) * outputs + j
                sums[k] = e.multiply_add(sums[k], gradients[j], pixel)
    return sums
