"""Heads: kernels of attention, softmax(scale · Q·Kᵀ)·V, and of its gradients, one head of an example after another.

The weights of a block of queries stay in the processor's caches, and the gradients compute them again. With P the
weights and D the gradient of the result,

    dV = Pᵀ·D,  dP = D·Vᵀ,  dS = scale · P ∘ (dP - Σ P ∘ dP),  dQ = dS·K,  dK = dSᵀ·Q.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedloom.kernels.emitter import INT, Emitter, Value
from fedloom.kernels.product import Matrix, Size, every, product
from fedloom.kernels.vectors import constant, exponential, larger, largest, spread, transposed, up_to

QUERIES = 64
"""The most queries in a block."""


@dataclass(frozen=True)
class Heads:
    """What a kernel is generated for: arrays (batch, queries or keys, heads, depth)."""

    batch: int
    queries: int
    keys: int
    heads: int
    depth: int
    scale: float
    is_causal: bool

    def room(self, width: int) -> int:
        """Return the distance between rows of weights in memory."""
        return -(-self.keys // width) * width

    def workspace(self, width: int) -> int:
        """Return how many numbers a kernel keeps beside its results: Kᵀ, Vᵀ, and P and dS of a block."""
        return 2 * self.room(width) * (self.depth + min(QUERIES, self.queries))

    @property
    def step(self) -> int:
        """Return the distance between neighbouring queries or keys in memory."""
        return self.heads * self.depth

    def __str__(self) -> str:
        numbers = (self.batch, self.queries, self.keys, self.heads, self.depth, int(self.is_causal))
        return "_".join(map(str, (*numbers, self.scale.hex().replace(".", "o").replace("-", "m").replace("+", "p"))))


@dataclass(frozen=True)
class Head:
    """One head of an example: the emitter, the kernel's shape, and where its arrays begin."""

    e: Emitter
    shape: Heads
    query: Value
    key: Value
    work: Value

    def rows(self, array: Value, first: Value, start: Value | None = None) -> Matrix:
        """Return the queries, keys or values of the head from one on."""
        return Matrix(array, self.e.integer(0, (1, first), (self.shape.step, start)), self.shape.step)

    def scratch(self, index: int) -> Matrix:
        """Return one of the matrices Kᵀ, Vᵀ, P and dS."""
        room, depth = self.shape.room(self.e.width), self.shape.depth
        first = (0, depth, 2 * depth, 2 * depth + min(QUERIES, self.shape.queries))[index] * room
        return Matrix(self.work, INT(first), room)


def forward(name: str, shape: Heads, width: int) -> str:
    """Return the program: q, k, v → the result, and the workspace."""

    def one(head: Head) -> None:
        e, (_, _, v) = head.e, head.e.arguments
        for i, rows in every(e, shape.queries, QUERIES):
            _weights(head, i, rows)
            size = Size(rows, shape.depth, shape.keys)
            product(e, size, head.scratch(2), head.rows(v, head.key), head.rows(e.result, head.query, i))

    return _program(Emitter(name, 3, width, 2), shape, (1,), one)


def gradients(name: str, shape: Heads, width: int) -> str:
    """Return the program: q, k, v and the gradient of the result → those of q, k and v, and the workspace."""

    def one(head: Head) -> None:
        e, (q, k, _, d), (dq, dk, dv, _) = head.e, head.e.arguments, head.e.results
        _clear(head, dk)
        _clear(head, dv)
        for i, rows in every(e, shape.queries, QUERIES):
            _weights(head, i, rows)
            weights, changes, mine = head.scratch(2), head.scratch(3), head.rows(d, head.query, i)
            product(e, Size(rows, shape.keys, shape.depth), mine, head.scratch(1), changes)
            _changes(head, i, rows)
            long, wide = Size(shape.keys, shape.depth, rows), Size(rows, shape.depth, shape.keys)
            product(e, long, _turned(weights), mine, head.rows(dv, head.key), adds=True)
            product(e, wide, changes, head.rows(k, head.key), head.rows(dq, head.query, i))
            product(e, long, _turned(changes), head.rows(q, head.query, i), head.rows(dk, head.key), adds=True)

    return _program(Emitter(name, 4, width, 4), shape, (1, 2), one)


def _turned(a: Matrix) -> Matrix:
    return Matrix(a.array, a.first, a.right, a.down)


def _program(e: Emitter, shape: Heads, turned: tuple[int, ...], one: Callable[[Head], None]) -> str:
    """Return the program that does each head of each example, after it has transposed some of its arguments."""
    with e.loop(0, shape.batch) as example, e.loop(0, shape.heads) as h:
        query = e.integer(0, (shape.queries * shape.step, example), (shape.depth, h))
        key = e.integer(0, (shape.keys * shape.step, example), (shape.depth, h))
        head = Head(e, shape, query, key, e.results[-1])
        for index, argument in enumerate(turned):
            _transpose(head, head.rows(e.arguments[argument], key), head.scratch(index))
        one(head)
    return e.finish()


def _transpose(head: Head, a: Matrix, to: Matrix) -> None:
    """Emit the transposed of the keys or values, with zeros up to the next whole vector."""
    e = head.e
    for i, rows in every(e, head.shape.keys, e.width):
        for j, columns in every(e, head.shape.depth, e.width):
            at, mask = a.at(e, i, j), (1 << columns) - 1
            square = [e.load(a.array, e.integer(r * a.down, (1, at)), ((0, mask),)) for r in range(rows)]
            square += [e.zero()] * (e.width - rows)
            at = to.at(e, j, i)
            for c, column in enumerate(transposed(e, square)[:columns]):
                e.store(column, to.array, e.integer(c * to.down, (1, at)))


def _clear(head: Head, array: Value) -> None:
    """Emit zeros for the gradient of the keys or values."""
    e, matrix = head.e, head.rows(array, head.key)
    with e.loop(0, head.shape.keys) as s:
        for c, columns in every(e, head.shape.depth, e.width):
            e.store(e.zero(), array, matrix.at(e, s, c), ((0, (1 << columns) - 1),))


def _weights(head: Head, start: Value, rows: int) -> None:
    """Emit P of the queries from one on: softmax(scale · Q·Kᵀ), row by row."""
    e, shape, p = head.e, head.shape, head.scratch(2)
    product(e, Size(rows, shape.keys, shape.depth), head.rows(e.arguments[0], head.query, start), head.scratch(0), p)
    with e.loop(0, rows) as r:
        row, last = p.at(e, r, INT(0)), _last(head, start, r)

        def logits(v: Value, row: Value = row, last: Value = last) -> tuple[Value, Value]:
            place = e.integer(0, (e.width, v))
            at = e.integer(0, (1, row), (1, place))
            scaled = e.b.fmul(e.load(p.array, at), constant(e, shape.scale))
            return at, e.b.select(up_to(e, place, last), scaled, constant(e, -float("inf")))

        many = shape.room(e.width) // e.width
        (top,) = e.fold(0, many, [constant(e, -float("inf"))], lambda v, top: [larger(e, logits(v)[1], top[0])])
        top = largest(e, top)

        def raised(v: Value, total: list[Value], top: Value = top) -> list[Value]:
            at, z = logits(v)
            found = exponential(e, e.b.fsub(z, top))
            e.store(found, p.array, at)
            return [e.b.fadd(total[0], found)]

        (total,) = e.fold(0, many, [e.zero()], raised)
        share = e.b.fdiv(constant(e, 1.0), spread(e, e.total(total)))
        with e.loop(0, many) as v:
            at = e.integer(0, (1, row), (e.width, v))
            e.store(e.b.fmul(e.load(p.array, at), share), p.array, at)


def _last(head: Head, start: Value, r: Value) -> Value:
    """Return the last key that a query attends to."""
    e, end = head.e, INT(head.shape.keys - 1)
    own = e.integer(0, (1, start), (1, r))
    return e.b.select(e.b.icmp_signed("<", own, end), own, end) if head.shape.is_causal else end


def _changes(head: Head, start: Value, rows: int) -> None:
    """Emit dS of the queries from one on, in the place of dP."""
    e, shape, p, changes = head.e, head.shape, head.scratch(2), head.scratch(3)
    with e.loop(0, rows) as r:
        row, other, last = p.at(e, r, INT(0)), changes.at(e, r, INT(0)), _last(head, start, r)

        def parts(v: Value, row: Value = row, other: Value = other, last: Value = last) -> tuple[Value, Value, Value]:
            place = e.integer(0, (e.width, v))
            at = e.integer(0, (1, other), (1, place))
            d = e.b.select(up_to(e, place, last), e.load(changes.array, at), e.zero())
            return at, e.load(p.array, e.integer(0, (1, row), (1, place))), d

        def mean(v: Value, total: list[Value]) -> list[Value]:
            _, weight, d = parts(v)
            return [e.multiply_add(total[0], weight, d)]

        many = shape.room(e.width) // e.width
        (total,) = e.fold(0, many, [e.zero()], mean)
        total = spread(e, e.total(total))
        with e.loop(0, many) as v:
            at, weight, d = parts(v)
            scaled = e.b.fmul(weight, constant(e, shape.scale))
            e.store(e.b.fmul(scaled, e.b.fsub(d, total)), changes.array, at)
