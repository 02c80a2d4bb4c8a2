"""Cell: kernels that run an LSTM layer over all times, forward and backward.

    i, f, g, o = x·Wᵢᵀ + b + h₋₁·Wₕᵀ;  c = σ(f)·c₋₁ + σ(i)·tanh(g);  h = σ(o)·tanh(c)

A tile of the product is a few rows of the batch times one vector of units of all four gates, and stays in registers
until the activations are computed. The units are a multiple of the vectors' width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fedloom.kernels.activation import constant, sigmoid, tanh
from fedloom.kernels.emitter import INT, Emitter, Value

GATES = 4
ROWS = {16: 6, 8: 2}
"""Width → the rows of a tile whose sums, with four vectors of weights, fill the registers."""


@dataclass(frozen=True)
class Cell:
    """An LSTM layer in one direction.

    Args:
        times, batch, inputs, hidden: its sizes.
        back: True if it runs from the last time to the first.
    """

    times: int
    batch: int
    inputs: int
    hidden: int
    back: bool

    def __str__(self) -> str:
        """Return a name without spaces."""
        return f"{self.times}x{self.batch}x{self.inputs}x{self.hidden}{'r' if self.back else ''}"


@dataclass(frozen=True)
class Place:
    """Where a kernel is: the time, and where the arrays begin at this time and at the one that came before."""

    time: Value
    first: Value
    before: Value


def places(e: Emitter, cell: Cell, gradient: bool) -> Iterator[Place]:
    """Emit the loop over times in the order in which the kernel takes them."""
    reverse, last = cell.back != gradient, cell.times - 1
    with e.loop(0, cell.times) as step:
        time = e.integer(last, (-1, step)) if reverse else step
        begins = e.integer(last) if cell.back else e.integer(0)
        first = e.b.icmp_signed("==", time, begins)
        yield Place(time, first, e.integer(1 if cell.back else -1, (1, time)))


def earlier(e: Emitter, place: Place, first: Value, array: Value, size: int) -> Value:
    """Return where the values of the time before begin: those in an array of all times, or the first ones."""
    at = e.b.gep(array, [e.integer(0, (size, place.before))])
    return e.b.select(place.first, first, at)


def tiles(e: Emitter, many: int, most: int) -> Iterator[tuple[Value, int]]:
    """Emit loops over tiles of about the same size, and yield the first of each and how many there are."""
    size = -(-many // -(-many // most))
    with e.loop(0, many // size * size, size) as first:
        yield first, size
    if many % size:
        yield INT(many // size * size), many % size


def multiply(
    e: Emitter,
    sums: list[Value],
    length: int,
    rows: Callable[[Value], list[Value]],
    columns: Callable[[Value], list[Value]],
) -> list[Value]:
    """Emit sums[r, v] += Σₖ rows(k)[r] · columns(k)[v]."""

    def turn(k: Value, sums: list[Value]) -> list[Value]:
        right = columns(k)
        return [e.multiply_add(total, left, vector) for left, part in zip(rows(k), parts(sums, len(right)), strict=True)
                for total, vector in zip(part, right, strict=True)]  # fmt: skip

    return e.fold(0, length, sums, turn)


def parts(values: list[Value], size: int) -> list[list[Value]]:
    """Return a list in parts of a size."""
    return [values[i : i + size] for i in range(0, len(values), size)]


def cell_forward(name: str, cell: Cell, width: int) -> str:
    """Return the program: x, h₀, c₀, weights (units/width, inputs + hidden, gate, width), biases (units/width, gate,
    width) → h and c (time, batch, units), gates (time, batch, units/width, gate, width).
    """
    e = Emitter(name, 5, width, 3)
    for place in places(e, cell, gradient=False):
        with e.loop(0, cell.hidden // width) as unit:
            for row, many in tiles(e, cell.batch, ROWS[width]):
                _forward_tile(e, cell, place, unit, row, many)
    return e.finish()


def _forward_tile(e: Emitter, cell: Cell, place: Place, unit: Value, row: Value, many: int) -> None:
    x, h0, c0, w, bias = e.arguments
    wide, length = GATES * e.width, cell.inputs + cell.hidden
    start = [e.load(bias, e.integer(g * e.width, (wide, unit))) for g in range(GATES)]
    state = cell.batch * cell.hidden
    before = earlier(e, place, h0, e.results[0], state)
    sums, done = start * many, 0
    now = e.b.gep(x, [e.integer(0, (cell.batch * cell.inputs, place.time))])
    for source, size in ((now, cell.inputs), (before, cell.hidden)):
        at = e.b.gep(source, [e.integer(0, (size, row))])
        weights = e.b.gep(w, [e.integer(done * wide, (length * wide, unit))])
        rows = lambda k, at=at, size=size: [e.broadcast(at, e.integer(r * size, (1, k))) for r in range(many)]  # noqa: E731
        columns = lambda k, weights=weights: [e.load(weights, e.integer(g * e.width, (wide, k))) for g in range(GATES)]  # noqa: E731
        sums, done = multiply(e, sums, size, rows, columns), done + size
    cells = earlier(e, place, c0, e.results[1], state)
    for r, z in enumerate(parts(sums, GATES)):
        at = e.integer(r * cell.hidden, (cell.hidden, row), (e.width, unit))
        _open(e, z, e.load(cells, at), e.integer(0, (1, at), (state, place.time)))


def _open(e: Emitter, z: list[Value], c: Value, to: Value) -> None:
    """Emit the activations of one vector of units, and write what comes out from there on."""
    b = e.b
    i, f, g, o = gates = sigmoid(e, z[0]), sigmoid(e, z[1]), tanh(e, z[2]), sigmoid(e, z[3])
    c = e.multiply_add(b.fmul(i, g), f, c)
    e.store(b.fmul(o, tanh(e, c)), e.results[0], to)
    e.store(c, e.results[1], to)
    for k, gate in enumerate(gates):
        e.store(gate, e.results[2], e.integer(k * e.width, (GATES, to)))


def cell_backward(name: str, cell: Cell, width: int) -> str:
    """Return the program: the gradients for h (time, batch, units) and for the last c; c, c₀, the gates as the forward
    kernel writes them, Wₕ (4·units, units) → the gradients for what the gates are computed from (time, batch, 4·units),
    and for h₀ and c₀.
    """
    e = Emitter(name, 6, width, 3)
    last, w = e.arguments[1], e.arguments[-1]
    state = cell.batch * cell.hidden
    with e.loop(0, state, width) as i:
        e.store(e.zero(), e.results[1], i)
        e.store(e.load(last, i), e.results[2], i)
    for place in places(e, cell, gradient=True):
        with e.loop(0, state, width) as i:
            _close(e, cell, place, i)
        dz = e.b.gep(e.results[0], [e.integer(0, (GATES * state, place.time))])
        for column, vectors in tiles(e, cell.hidden // width, GATES):
            for row, many in tiles(e, cell.batch, ROWS[width]):
                _backward_tile(e, cell, dz, w, column, vectors, row, many)
    return e.finish()


def _backward_tile(
    e: Emitter, cell: Cell, dz: Value, w: Value, column: Value, vectors: int, row: Value, many: int
) -> None:
    """Emit dh₋₁ = dz·Wₕ of some rows and some vectors of units."""
    length = GATES * cell.hidden
    at = e.b.gep(dz, [e.integer(0, (length, row))])
    start = e.b.gep(w, [e.integer(0, (e.width, column))])
    rows = lambda k: [e.broadcast(at, e.integer(r * length, (1, k))) for r in range(many)]  # noqa: E731
    columns = lambda k: [e.load(start, e.integer(v * e.width, (cell.hidden, k))) for v in range(vectors)]  # noqa: E731
    sums = multiply(e, [e.zero()] * (many * vectors), length, rows, columns)
    for r, part in enumerate(parts(sums, vectors)):
        for v, total in enumerate(part):
            to = e.integer(r * cell.hidden + v * e.width, (cell.hidden, row), (e.width, column))
            e.store(total, e.results[1], to)


def _close(e: Emitter, cell: Cell, place: Place, i: Value) -> None:
    """Emit the gradients of one vector of units at one time.

    do = dh·tanh(c);  dc += dh·o·(1 - tanh²(c));  di = dc·g;  df = dc·c₋₁;  dg = dc·i;  dc₋₁ = dc·f
    """
    b, state = e.b, cell.batch * cell.hidden
    d, _, cells, c0, gates, _ = e.arguments
    at = e.integer(0, (1, i), (state, place.time))
    rest = lambda a: b.fsub(constant(e, 1.0), a)  # noqa: E731
    product = lambda *values: values[0] if len(values) == 1 else b.fmul(product(*values[:-1]), values[-1])  # noqa: E731
    dh = b.fadd(e.load(e.results[1], i), e.load(d, at))
    ig, fg, gg, og = (e.load(gates, e.integer(k * e.width, (GATES, at))) for k in range(GATES))
    t = tanh(e, e.load(cells, at))
    dc = e.multiply_add(e.load(e.results[2], i), b.fmul(dh, og), rest(b.fmul(t, t)))
    before = e.load(earlier(e, place, c0, cells, state), i)
    row, unit = b.sdiv(i, INT(cell.hidden)), b.srem(i, INT(cell.hidden))
    to = e.integer(0, (1, unit), (GATES * cell.hidden, row), (GATES * state, place.time))
    into = (
        product(dc, gg, ig, rest(ig)),
        product(dc, before, fg, rest(fg)),
        product(dc, ig, rest(b.fmul(gg, gg))),
        product(dh, t, og, rest(og)),
    )
    for k, dz in enumerate(into):
        e.store(dz, e.results[0], e.integer(k * cell.hidden, (1, to)))
    e.store(b.fmul(dc, fg), e.results[2], i)
