"""Vectors: functions of vectors in registers, which kernels use between products."""

from __future__ import annotations

import llvmlite.ir as ir

from fedloom.kernels.emitter import FLOAT, INT32, Emitter, Value

SMALLEST = -87.33
"""Numbers below it have an exponential of zero: it would be no normal number."""
ROUNDER = 12582912.0
"""1.5 · 2²³: a float32 to which it is added has the whole number nearest to it in its last bits."""
SERIES = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
"""(exp(r) - 1 - r) / r² for \\|r\\| ≤ ln(2) / 2, highest power first (Cephes' ``expf``)."""


def constant(e: Emitter, number: float) -> Value:
    """Return a vector of one number."""
    kind = ir.Constant(FLOAT, number)
    return ir.Constant(e.vector, [kind] * e.width)


def exponential(e: Emitter, x: Value) -> Value:
    """Return exp(x) for x ≤ 0, to about one unit in the last place: 2ⁿ · exp(r) with x = n · ln(2) + r."""
    b, number = e.b, lambda value: constant(e, value)
    is_tiny = b.fcmp_ordered("<", x, number(SMALLEST))
    x = b.select(is_tiny, number(SMALLEST), x)
    rounded = e.multiply_add(number(ROUNDER), x, number(1.4426950408889634))
    n = b.fsub(rounded, number(ROUNDER))
    r = e.multiply_add(x, n, number(-0.693359375))
    r = e.multiply_add(r, n, number(2.12194440e-4))
    total = number(SERIES[0])
    for coefficient in SERIES[1:]:
        total = e.multiply_add(number(coefficient), total, r)
    total = b.fadd(e.multiply_add(r, total, b.fmul(r, r)), number(1.0))
    whole = ir.VectorType(INT32, e.width)
    bits = b.shl(b.bitcast(rounded, whole), ir.Constant(whole, [23] * e.width))
    power = b.bitcast(b.add(bits, ir.Constant(whole, [127 << 23] * e.width)), e.vector)
    return b.select(is_tiny, number(0.0), b.fmul(total, power))


def larger(e: Emitter, x: Value, y: Value) -> Value:
    """Return the larger numbers of two vectors."""
    return e.b.select(e.b.fcmp_ordered(">", x, y), x, y)


def largest(e: Emitter, x: Value) -> Value:
    """Return a vector of the largest number of a vector."""
    step = e.width // 2
    while step:
        x = larger(e, x, shuffled(e, x, x, [lane ^ step for lane in range(e.width)]))
        step //= 2
    return x


def spread(e: Emitter, number: Value) -> Value:
    """Return a vector of one number of the program."""
    first = e.b.insert_element(ir.Constant(e.vector, ir.Undefined), number, INT32(0))
    return shuffled(e, first, first, [0] * e.width)


def shuffled(e: Emitter, x: Value, y: Value, lanes: list[int]) -> Value:
    """Return the numbers of two vectors at some lanes; those of the second are counted from the width on."""
    return e.b.shuffle_vector(x, y, ir.Constant(ir.VectorType(INT32, e.width), lanes))


def up_to(e: Emitter, first: Value, last: Value) -> Value:
    """Return for each lane whether its place, counted from the first lane's, is at most the last."""
    kind = ir.VectorType(INT32, e.width)
    lanes = ir.Constant(kind, list(range(e.width)))
    room = e.b.trunc(e.b.sub(last, first), INT32)
    zeros = ir.Constant(kind, [0] * e.width)
    many = e.b.shuffle_vector(e.b.insert_element(ir.Constant(kind, ir.Undefined), room, INT32(0)), zeros, zeros)
    return e.b.icmp_signed("<=", lanes, many)


def transposed(e: Emitter, rows: list[Value]) -> list[Value]:
    """Return the columns of a square of as many vectors as one has lanes."""
    half = e.width // 2
    low = [lane // 2 + e.width * (lane % 2) for lane in range(e.width)]
    for _ in range(e.width.bit_length() - 1):
        pairs = [(rows[i], rows[i + half]) for i in range(half)]
        rows = [shuffled(e, x, y, [lane + at for lane in low]) for x, y in pairs for at in (0, half)]
    return rows
