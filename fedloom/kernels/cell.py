"""Cell: kernels that run an LSTM layer over all times, forward and backward.

    i, f, g, o = x·Wᵢᵀ + b + h₋₁·Wₕᵀ;  c = σ(f)·c₋₁ + σ(i)·tanh(g);  h = σ(o)·tanh(c)

A tile of the product is a few rows of the batch times one vector of units of all four gates, and stays in registers
until the activations are computed. The units are a multiple of the vectors' width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fedloom.kernels.activation import constant, sigmoid, tanh
from fedloom.kernels.emitter import INT, Emitter, Value
from fedloom.kernels.product import SUMS, column_tiles, multiply, parts, tiles
from fedloom.kernels.transpose import transposed

GATES = 4


@dataclass(frozen=True)
class Cell:
    """An LSTM layer in one direction.

    Args:
        times, batch, inputs, hidden: its sizes.
        back: True if it runs from the last time to the first.
        batch_first: True if arrays of all times are (batch, time, …) outside, False if they are (time, batch, …).
    """

    times: int
    batch: int
    inputs: int
    hidden: int
    back: bool
    batch_first: bool

    def __str__(self) -> str:
        marks = "r" * self.back + "b" * self.batch_first
        return f"{self.times}x{self.batch}x{self.inputs}x{self.hidden}{marks}"

    @property
    def state(self) -> int:
        """Return how many numbers h and c have."""
        return self.batch * self.hidden

    @property
    def apart(self) -> int:
        """Return how many times, or rows, lie between neighbouring rows of the batch in arrays of all times."""
        return self.times if self.batch_first else 1

    def time(self, e: Emitter, step: Value) -> Value:
        """Emit the time of a step."""
        return e.integer(self.times - 1, (-1, step)) if self.back else step

    def place(self, e: Emitter, time: Value, row: Value) -> Value:
        """Emit where a row of the batch is at a time, counted in rows of an array of all times."""
        return e.integer(0, (1 if self.batch_first else self.batch, time), (self.apart, row))


def cell_weights(name: str, cell: Cell, width: int) -> str:
    """Return the program: Wᵢ (4·units, inputs), Wₕ (4·units, units) → both as (units/width, inputs + units, gate,
    width), in the order in which the forward kernel reads them.
    """
    e = Emitter(name, 2, width)
    length, done = cell.inputs + cell.hidden, 0
    for source, size in zip(e.arguments, (cell.inputs, cell.hidden), strict=True):
        with e.loop(0, cell.hidden // width) as unit, e.loop(0, GATES) as gate:
            for column, pieces in column_tiles(e, size, 1):
                at = e.integer(0, (width * size, unit), (cell.hidden * size, gate), (1, column))
                lines = transposed(e, [e.load(source, e.integer(i * size, (1, at)), pieces[0]) for i in range(width)])
                for k in range(width if pieces[0] is None else size % width):
                    to = e.integer((done + k) * GATES * width, (length * GATES * width, unit), (width, gate),
                                   (GATES * width, column))  # fmt: skip
                    e.store(lines[k], e.result, to)
        done += size
    return e.finish()


def cell_forward(name: str, cell: Cell, width: int) -> str:
    """Return the program: x, h₀, c₀, weights (as above), biases (4·units) → h of all times, h of the time before each,
    cells (step, batch, units) with c₀ first, gates (step, batch, units/width, gate, width).
    """
    e = Emitter(name, 5, width, 4)
    _, h0, c0, *_ = e.arguments
    _copy(e, c0, e.results[2], cell.state)
    with e.loop(0, cell.batch) as row:
        to = e.integer(0, (cell.hidden, cell.place(e, cell.time(e, INT(0)), row)))
        _copy(e, e.b.gep(h0, [e.integer(0, (cell.hidden, row))]), e.b.gep(e.results[1], [to]), cell.hidden)
    with e.loop(0, cell.times) as step, e.loop(0, cell.hidden // width) as unit:
        for row, many in tiles(e, cell.batch, SUMS[width] // GATES):
            _forward_tile(e, cell, step, unit, row, many)
    return e.finish()


def _copy(e: Emitter, source: Value, to: Value, size: int) -> None:
    with e.loop(0, size, e.width) as i:
        e.store(e.load(source, i), to, i)


def _forward_tile(e: Emitter, cell: Cell, step: Value, unit: Value, row: Value, many: int) -> None:
    x, _, _, w, bias = e.arguments
    wide, length = GATES * e.width, cell.inputs + cell.hidden
    sums = [e.load(bias, e.integer(g * cell.hidden, (e.width, unit))) for g in range(GATES)] * many
    place, done = cell.place(e, cell.time(e, step), row), 0
    for source, size in ((x, cell.inputs), (e.results[1], cell.hidden)):
        at = e.b.gep(source, [e.integer(0, (size, place))])
        weights = e.b.gep(w, [e.integer(done * wide, (length * wide, unit))])
        apart = size * cell.apart
        rows = lambda k, at=at, apart=apart: [e.broadcast(at, e.integer(r * apart, (1, k))) for r in range(many)]  # noqa: E731
        columns = lambda k, weights=weights: [e.load(weights, e.integer(g * e.width, (wide, k))) for g in range(GATES)]  # noqa: E731
        sums, done = multiply(e, sums, 0, size, rows, columns), done + size
    found = [_open(e, z, e.integer(r * cell.hidden, (cell.state, step), (cell.hidden, row), (e.width, unit)), cell.state)
             for r, z in enumerate(parts(sums, GATES))]  # fmt: skip
    _write(e, cell, found, e.results[0], place, unit)
    with e.b.if_then(e.b.icmp_signed("<", step, INT(cell.times - 1))):
        after = cell.place(e, cell.time(e, e.integer(1, (1, step))), row)
        _write(e, cell, found, e.results[1], after, unit)


def _write(e: Emitter, cell: Cell, found: list[Value], array: Value, place: Value, unit: Value) -> None:
    for r, h in enumerate(found):
        to = e.integer(r * cell.apart * cell.hidden, (cell.hidden, place), (e.width, unit))
        e.store(h, array, to)


def _open(e: Emitter, z: list[Value], at: Value, state: int) -> Value:
    """Emit the activations of one vector of units, write the gates and the cells, and return the outputs."""
    b = e.b
    i, f, g, o = gates = sigmoid(e, z[0]), sigmoid(e, z[1]), tanh(e, z[2]), sigmoid(e, z[3])
    c = e.multiply_add(b.fmul(i, g), f, e.load(e.results[2], at))
    e.store(c, e.results[2], e.integer(state, (1, at)))
    for k, gate in enumerate(gates):
        e.store(gate, e.results[3], e.integer(k * e.width, (GATES, at)))
    return b.fmul(o, tanh(e, c))


def cell_backward(name: str, cell: Cell, width: int) -> str:
    """Return the program: the gradients for h of all times and for the last c, the cells and the gates, Wₕ → the
    gradients for what the gates are computed from (…, 4·units), for h₀ and c₀, and for the biases.
    """
    e = Emitter(name, 5, width, 4)
    w = e.arguments[-1]
    for array, size in ((e.results[1], cell.state), (e.results[3], GATES * cell.hidden)):
        with e.loop(0, size, width) as i:
            e.store(e.zero(), array, i)
    _copy(e, e.arguments[1], e.results[2], cell.state)
    with e.loop(0, cell.times) as done:
        step = e.integer(cell.times - 1, (-1, done))
        with e.loop(0, cell.batch) as row, e.loop(0, cell.hidden, width) as unit:
            _close(e, cell, step, row, unit)
        for column, pieces in column_tiles(e, cell.hidden):
            for row, many in tiles(e, cell.batch, SUMS[width] // len(pieces)):
                _backward_tile(e, cell, step, w, column, len(pieces), row, many)
    return e.finish()


def _close(e: Emitter, cell: Cell, step: Value, row: Value, unit: Value) -> None:
    """Emit the gradients of one vector of units of one row at one step.

    do = dh·tanh(c);  dc += dh·o·(1 - tanh²(c));  di = dc·g;  df = dc·c₋₁;  dg = dc·i;  dc₋₁ = dc·f
    """
    b, (d, _, cells, gates, _) = e.b, e.arguments
    i = e.integer(0, (cell.hidden, row), (1, unit))
    at, place = e.integer(0, (1, i), (cell.state, step)), cell.place(e, cell.time(e, step), row)
    rest = lambda a: b.fsub(constant(e, 1.0), a)  # noqa: E731
    slope = lambda a: b.fmul(a, rest(a))  # noqa: E731
    dh = b.fadd(e.load(e.results[1], i), e.load(d, e.integer(0, (cell.hidden, place), (1, unit))))
    ig, fg, gg, og = (e.load(gates, e.integer(k * e.width, (GATES, at))) for k in range(GATES))
    t = tanh(e, e.load(cells, e.integer(cell.state, (1, at))))
    dc = e.multiply_add(e.load(e.results[2], i), b.fmul(dh, og), rest(b.fmul(t, t)))
    into = (
        b.fmul(b.fmul(dc, gg), slope(ig)),
        b.fmul(b.fmul(dc, e.load(cells, at)), slope(fg)),
        b.fmul(b.fmul(dc, ig), rest(b.fmul(gg, gg))),
        b.fmul(b.fmul(dh, t), slope(og)),
    )
    for k, dz in enumerate(into):
        of = e.integer(k * cell.hidden, (1, unit))
        e.store(dz, e.results[0], e.integer(0, (GATES * cell.hidden, place), (1, of)))
        e.store(b.fadd(e.load(e.results[3], of), dz), e.results[3], of)
    e.store(b.fmul(dc, fg), e.results[2], i)


def _backward_tile(
    e: Emitter, cell: Cell, step: Value, w: Value, column: Value, vectors: int, row: Value, many: int
) -> None:
    """Emit dh₋₁ = dz·Wₕ of some rows and some vectors of units."""
    length = GATES * cell.hidden
    at = e.b.gep(e.results[0], [e.integer(0, (length, cell.place(e, cell.time(e, step), row)))])
    start = e.b.gep(w, [column])
    rows = lambda k: [e.broadcast(at, e.integer(r * length * cell.apart, (1, k))) for r in range(many)]  # noqa: E731
    columns = lambda k: [e.load(start, e.integer(v * e.width, (cell.hidden, k))) for v in range(vectors)]  # noqa: E731
    sums = multiply(e, [e.zero()] * (many * vectors), 0, length, rows, columns)
    for r, line in enumerate(parts(sums, vectors)):
        for v, total in enumerate(line):
            to = e.integer(r * cell.hidden + v * e.width, (cell.hidden, row), (1, column))
            e.store(total, e.results[1], to)
