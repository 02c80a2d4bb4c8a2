"""Cell: kernels that run an LSTM or a GRU layer over all times, forward and backward.

A tile is a few rows of the batch times one vector of units. Its four sums (`gates.py`) stay in registers until the
activations are computed. The units are a multiple of the vectors' width.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.kernels.emitter import INT, Emitter, Value
from fedloom.kernels.gates import GATES, SUMS, Gates
from fedloom.kernels.tiles import SUMS as ROOM
from fedloom.kernels.tiles import column_tiles, multiply, parts, tiles
from fedloom.kernels.transpose import transposed


@dataclass(frozen=True)
class Cell:
    """A recurrent layer in one direction.

    Args:
        kind: ``lstm`` or ``gru``.
        times, batch, inputs, hidden: its sizes.
        back: True if it runs from the last time to the first.
        batch_first: True if arrays of all times are (batch, time, …), False if they are (time, batch, …).
    """

    kind: str
    times: int
    batch: int
    inputs: int
    hidden: int
    back: bool
    batch_first: bool

    def __str__(self) -> str:
        marks = "r" * self.back + "b" * self.batch_first
        return f"{self.kind}_{self.times}x{self.batch}x{self.inputs}x{self.hidden}{marks}"

    @property
    def gates(self) -> Gates:
        """Return what its units compute."""
        return GATES[self.kind]

    @property
    def wide(self) -> int:
        """Return how many columns the products with x, or with h, have."""
        return len(self.gates.of_x) * self.hidden

    @property
    def state(self) -> int:
        """Return how many numbers h has."""
        return self.batch * self.hidden

    @property
    def apart(self) -> int:
        """Return how many rows of an array of all times lie between neighbouring rows of the batch."""
        return self.times if self.batch_first else 1

    def time(self, e: Emitter, step: Value) -> Value:
        """Emit the time of a step."""
        return e.integer(self.times - 1, (-1, step)) if self.back else step

    def place(self, e: Emitter, step: Value, row: Value) -> Value:
        """Emit where a row of the batch is at a step, counted in rows of an array of all times."""
        return e.integer(0, (1 if self.batch_first else self.batch, self.time(e, step)), (self.apart, row))


def cell_weights(name: str, cell: Cell, width: int) -> str:
    """Return the program: Wᵢ (gates·units, inputs), Wₕ (gates·units, units) → both as (units/width, inputs + units,
    gate, width), in the order in which the forward kernel reads them.
    """
    e = Emitter(name, 2, width)
    gates = len(cell.gates.of_x)
    length, wide, done = cell.inputs + cell.hidden, gates * width, 0
    for source, size in zip(e.arguments, (cell.inputs, cell.hidden), strict=True):
        with e.loop(0, cell.hidden // width) as unit, e.loop(0, gates) as gate:
            for column, pieces in column_tiles(e, size, 1):
                at = e.integer(0, (width * size, unit), (cell.hidden * size, gate), (1, column))
                lines = transposed(e, [e.load(source, e.integer(i * size, (1, at)), pieces[0]) for i in range(width)])
                to = e.integer(done * wide, (length * wide, unit), (width, gate), (wide, column))
                for k in range(width if pieces[0] is None else size % width):
                    e.store(lines[k], e.result, e.integer(k * wide, (1, to)))
        done += size
    return e.finish()


def cell_forward(name: str, cell: Cell, width: int) -> str:
    """Return the program: x, h₀, c₀, weights (as above), biases (4·units) → h of all times, h of the time before each,
    states c (step, batch, units) with c₀ first, what is kept (step, batch, units/width, 4, width).
    """
    e = Emitter(name, 5, width, 4)
    _, h0, c0, *_ = e.arguments
    _copy(e, c0, e.results[2], cell.state)
    with e.loop(0, cell.batch) as row:
        to = e.integer(0, (cell.hidden, cell.place(e, INT(0), row)))
        _copy(e, e.b.gep(h0, [e.integer(0, (cell.hidden, row))]), e.b.gep(e.results[1], [to]), cell.hidden)
    with e.loop(0, cell.times) as step, e.loop(0, cell.hidden // width) as unit:
        for row, many in tiles(e, cell.batch, ROOM[width] // SUMS):
            _forward_tile(e, cell, step, unit, row, many)
    return e.finish()


def _copy(e: Emitter, source: Value, to: Value, size: int) -> None:
    with e.loop(0, size, e.width) as i:
        e.store(e.load(source, i), to, i)


def _forward_tile(e: Emitter, cell: Cell, step: Value, unit: Value, row: Value, many: int) -> None:
    bias, place = e.arguments[-1], cell.place(e, step, row)
    lines = [[e.load(bias, e.integer(g * cell.hidden, (e.width, unit))) for g in range(SUMS)] for _ in range(many)]
    for source, sums, done in ((e.arguments[0], cell.gates.of_x, 0), (e.results[1], cell.gates.of_h, cell.inputs)):
        found = _product(e, cell, source, (unit, place, done), [line[g] for line in lines for g in sums])
        for line, new in zip(lines, parts(found, len(sums)), strict=True):
            for g, total in zip(sums, new, strict=True):
                line[g] = total
    outputs = [_forward_units(e, cell, line, e.integer(r * cell.hidden, (cell.state, step), (cell.hidden, row),
                                                       (e.width, unit))) for r, line in enumerate(lines)]  # fmt: skip
    _write(e, cell, outputs, e.results[0], place, unit)
    with e.b.if_then(e.b.icmp_signed("<", step, INT(cell.times - 1))):
        _write(e, cell, outputs, e.results[1], cell.place(e, e.integer(1, (1, step)), row), unit)


def _product(e: Emitter, cell: Cell, source: Value, where: tuple[Value, Value, int], sums: list[Value]) -> list[Value]:
    """Emit the product of x (done = 0) or of h, whose weights come after those of x."""
    unit, place, done = where
    gates, size = len(cell.gates.of_x), cell.hidden if done else cell.inputs
    wide, many = gates * e.width, len(sums) // gates
    at = e.b.gep(source, [e.integer(0, (size, place))])
    weights = e.b.gep(e.arguments[3], [e.integer(done * wide, ((cell.inputs + cell.hidden) * wide, unit))])
    rows = lambda k: [e.broadcast(at, e.integer(r * size * cell.apart, (1, k))) for r in range(many)]  # noqa: E731
    columns = lambda k: [e.load(weights, e.integer(g * e.width, (wide, k))) for g in range(gates)]  # noqa: E731
    return multiply(e, sums, 0, size, rows, columns)


def _forward_units(e: Emitter, cell: Cell, sums: list[Value], at: Value) -> Value:
    """Emit the activations of one vector of units, write its state and what is kept, and return its output."""
    h, c, kept = cell.gates.forward(e, sums, e.load(e.results[2], at))
    e.store(c, e.results[2], e.integer(cell.state, (1, at)))
    for k, value in enumerate(kept):
        e.store(value, e.results[3], e.integer(k * e.width, (SUMS, at)))
    return h


def _write(e: Emitter, cell: Cell, outputs: list[Value], array: Value, place: Value, unit: Value) -> None:
    for r, h in enumerate(outputs):
        e.store(h, array, e.integer(r * cell.apart * cell.hidden, (cell.hidden, place), (e.width, unit)))


def cell_backward(name: str, cell: Cell, width: int) -> str:
    """Return the program: the gradients for h of all times and for the last c, the states and what was kept, Wₕ → the
    gradients for h₀ and c₀, for the biases (4·units), and for the products (…, gates·units): one array if those with x
    and with h have the same, else two.
    """
    e = Emitter(name, 5, width, 3 + cell.gates.products)
    for array, size in ((e.results[0], cell.state), (e.results[2], SUMS * cell.hidden)):
        with e.loop(0, size, width) as i:
            e.store(e.zero(), array, i)
    _copy(e, e.arguments[1], e.results[1], cell.state)
    with e.loop(0, cell.times) as done:
        step = e.integer(cell.times - 1, (-1, done))
        with e.loop(0, cell.batch) as row, e.loop(0, cell.hidden, width) as unit:
            _backward_units(e, cell, step, row, unit)
        for column, pieces in column_tiles(e, cell.hidden):
            for row, many in tiles(e, cell.batch, ROOM[width] // len(pieces)):
                _backward_tile(e, cell, step, column, len(pieces), row, many)
    return e.finish()


def _backward_units(e: Emitter, cell: Cell, step: Value, row: Value, unit: Value) -> None:
    """Emit the gradients of one vector of units of one row at one step."""
    b, (d, _, states, kept, _) = e.b, e.arguments
    dh, dc, biases, *products = e.results
    i = e.integer(0, (cell.hidden, row), (1, unit))
    at, place = e.integer(0, (1, i), (cell.state, step)), cell.place(e, step, row)
    total = b.fadd(e.load(dh, i), e.load(d, e.integer(0, (cell.hidden, place), (1, unit))))
    both = e.load(states, at), e.load(states, e.integer(cell.state, (1, at)))
    numbers = [e.load(kept, e.integer(k * e.width, (SUMS, at))) for k in range(SUMS)]
    change = cell.gates.backward(e, total, e.load(dc, i), both, numbers)
    for array, sums in zip(products, (cell.gates.of_x, cell.gates.of_h), strict=False):
        for k, g in enumerate(sums):
            e.store(change.sums[g], array, e.integer(k * cell.hidden, (cell.wide, place), (1, unit)))
    for k, value in enumerate(change.sums):
        to = e.integer(k * cell.hidden, (1, unit))
        e.store(b.fadd(e.load(biases, to), value), biases, to)
    e.store(change.before, dc, i)


def _backward_tile(e: Emitter, cell: Cell, step: Value, column: Value, vectors: int, row: Value, many: int) -> None:
    """Emit the gradient for h₋₁ of some rows and some vectors of units: a product with Wₕ."""
    at = e.b.gep(e.results[-1], [e.integer(0, (cell.wide, cell.place(e, step, row)))])
    start = e.b.gep(e.arguments[-1], [column])
    rows = lambda k: [e.broadcast(at, e.integer(r * cell.wide * cell.apart, (1, k))) for r in range(many)]  # noqa: E731
    columns = lambda k: [e.load(start, e.integer(v * e.width, (cell.hidden, k))) for v in range(vectors)]  # noqa: E731
    sums = multiply(e, [e.zero()] * (many * vectors), 0, cell.wide, rows, columns)
    for r, line in enumerate(parts(sums, vectors)):
        for v, total in enumerate(line):
            to = e.integer(r * cell.hidden + v * e.width, (cell.hidden, row), (1, column))
            e.store(total, e.results[0], to)
