"""Activations: exponentials, sigmoids and hyperbolic tangents of vectors, written out as polynomials.

A NaN stays a NaN. Errors are a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.ir as ir

from fedloom.kernels.emitter import INT32, Emitter, Value

LARGEST_EXPONENT = 87.0
"""Exponents are cut to ± this, whose exponential and its inverse are normal numbers."""
LN2 = (0.693359375, -2.12194440e-4)
"""The logarithm of 2 in two parts, the first of few bits."""
EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
"""(exp(r) - 1 - r) / r² for |r| ≤ ln 2 / 2, highest power first (Cephes, expf)."""
ROUNDER = 12582912.0
"""1.5 · 2²³: added to a small number, it leaves the nearest whole number in the lowest bits."""
LARGEST_TANH = 7.90531110763549805
"""The arguments of tanh are cut to ± this."""
ABOVE = (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
         1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03)  # fmt: skip
BELOW = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
"""tanh(x) ≈ x · ABOVE(x²) / BELOW(x²), highest power first (the rational approximation that Eigen and XLA use)."""


def constant(e: Emitter, number: float) -> Value:
    """Return a vector of one number."""
    return ir.Constant(e.vector, [number] * e.width)


def sigmoid(e: Emitter, x: Value) -> Value:
    """Return 1 / (1 + exp(-x))."""
    one = constant(e, 1.0)
    return e.b.fdiv(one, e.b.fadd(one, exponential(e, e.b.fmul(x, constant(e, -1.0)))))


def exponential(e: Emitter, x: Value) -> Value:
    """Return exp(x) = 2ⁿ · exp(x - n · ln 2)."""
    b, x = e.b, bounded(e, x, LARGEST_EXPONENT)
    rounded = e.multiply_add(constant(e, ROUNDER), x, constant(e, 1.4426950408889634))
    n = b.fsub(rounded, constant(e, ROUNDER))
    r = x
    for part in LN2:
        r = e.multiply_add(r, n, constant(e, -part))
    found = e.multiply_add(b.fadd(r, constant(e, 1.0)), polynomial(e, r, EXP), b.fmul(r, r))
    whole = ir.VectorType(INT32, e.width)
    number = lambda value: ir.Constant(whole, [value] * e.width)  # noqa: E731
    power = b.shl(b.add(b.bitcast(rounded, whole), number(127)), number(23))
    return b.fmul(found, b.bitcast(power, e.vector))


def tanh(e: Emitter, x: Value) -> Value:
    """Return the hyperbolic tangent."""
    x = bounded(e, x, LARGEST_TANH)
    square = e.b.fmul(x, x)
    return e.b.fdiv(e.b.fmul(x, polynomial(e, square, ABOVE)), polynomial(e, square, BELOW))


def polynomial(e: Emitter, x: Value, coefficients: Sequence[float]) -> Value:
    """Return a polynomial, whose highest power comes first."""
    total = constant(e, coefficients[0])
    for coefficient in coefficients[1:]:
        total = e.multiply_add(constant(e, coefficient), total, x)
    return total


def bounded(e: Emitter, x: Value, limit: float) -> Value:
    """Return x cut to between -limit and limit; NaN as it is."""
    b = e.b
    for sign, bound in ((">", constant(e, limit)), ("<", constant(e, -limit))):
        x = b.select(b.fcmp_ordered(sign, x, bound), bound, x)
    return x
