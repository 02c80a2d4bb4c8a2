"""Gaussian: kernels of GELU, x · Φ(x), and of its gradient (Hendrycks and Gimpel 2016).

Φ is the normal distribution, or its approximation by a logistic function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from fedloom.kernels.emitter import Emitter, Value
from fedloom.kernels.product import every
from fedloom.kernels.vectors import constant, exponential

ERF = (
    (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05, -7.34990630326855e-04,
     -2.95459980854025e-03, -1.60960333262415e-02),
    (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02),
)  # fmt: skip
"""erf(x) = x · P(x²) / Q(x²) for |x| ≤ 4: the coefficients of P and Q, highest power first (as in XLA and Eigen)."""
BEYOND = 4.0
SLOPE, CUBIC = 0.7978845608028654, 0.044715
"""Φ(x) ≈ σ(2·u) with u = slope · (x + cubic · x³)."""


@dataclass(frozen=True)
class Numbers:
    """What a kernel is generated for: how many numbers, and whether Φ is the approximation."""

    many: int
    approximate: bool

    def __str__(self) -> str:
        return f"{self.many}_{int(self.approximate)}"


def forward(name: str, shape: Numbers, width: int) -> str:
    """Return the program: x → x · Φ(x)."""
    return _program(Emitter(name, 1, width), shape, lambda e, x: e.b.fmul(x[0], _parts(e, shape, x[0])[0]))


def gradient(name: str, shape: Numbers, width: int) -> str:
    """Return the program: x and the gradient of the result → the gradient of x."""

    def changed(e: Emitter, given: Sequence[Value]) -> Value:
        x, d = given
        share, slope = _parts(e, shape, x)
        return e.b.fmul(d, e.multiply_add(share, x, slope))

    return _program(Emitter(name, 2, width), shape, changed)


def _program(e: Emitter, shape: Numbers, function: Callable[[Emitter, list[Value]], Value]) -> str:
    for i, many in every(e, shape.many, e.width):
        pieces = ((0, (1 << many) - 1),)
        e.store(function(e, [e.load(array, i, pieces) for array in e.arguments]), e.result, i, pieces)
    return e.finish()


def _parts(e: Emitter, shape: Numbers, x: Value) -> tuple[Value, Value]:
    """Return Φ(x) and its derivative."""
    return (_logistic if shape.approximate else _normal)(e, x)


def _normal(e: Emitter, x: Value) -> tuple[Value, Value]:
    b, number = e.b, partial(constant, e)
    share = e.multiply_add(number(0.5), number(0.5), _erf(e, b.fmul(x, number(0.5**0.5))))
    density = exponential(e, b.fmul(b.fmul(x, x), number(-0.5)))
    return share, b.fmul(density, number(0.3989422804014327))


def _erf(e: Emitter, x: Value) -> Value:
    b, number = e.b, partial(constant, e)
    for limit, side in ((BEYOND, ">"), (-BEYOND, "<")):
        x = b.select(b.fcmp_ordered(side, x, number(limit)), number(limit), x)
    square = b.fmul(x, x)
    over, under = (
        reduce(lambda total, next: e.multiply_add(next, total, square), map(number, series)) for series in ERF
    )
    return b.fdiv(b.fmul(x, over), under)


def _logistic(e: Emitter, x: Value) -> tuple[Value, Value]:
    b, number = e.b, partial(constant, e)
    square, is_negative = b.fmul(x, x), b.fcmp_ordered("<", x, number(0.0))
    u = b.fmul(b.fmul(x, number(2 * SLOPE)), e.multiply_add(number(1.0), number(CUBIC), square))
    small = exponential(e, b.select(is_negative, u, b.fsub(number(-0.0), u)))
    share = b.fdiv(number(1.0), b.fadd(number(1.0), small))
    rest = b.fmul(small, share)
    slope = b.fmul(number(2 * SLOPE), e.multiply_add(number(1.0), number(3 * CUBIC), square))
    return b.select(is_negative, rest, share), b.fmul(b.fmul(rest, share), slope)
