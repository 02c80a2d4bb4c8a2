"""Gates: what the units of a recurrent layer compute from its products, and the gradients.

A unit has four sums: those of its gates. In a GRU, the third is the part of n that depends on x, the fourth the part
that depends on h. Its state c is its output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedloom.kernels.activation import constant, sigmoid, tanh
from fedloom.kernels.emitter import Emitter, Value

SUMS = 4
"""How many sums a unit has, and how many numbers the forward kernel keeps of each for the backward kernel."""


@dataclass(frozen=True)
class Change:
    """The gradients of one vector of units at one time.

    Args:
        sums: the gradients for the four sums.
        before: the gradient for the state before, as far as it does not come through the sums.
    """

    sums: list[Value]
    before: Value


@dataclass(frozen=True)
class Gates:
    """A kind of recurrent layer.

    Args:
        of_x, of_h: the sums that the products with x, and with h, are added to, in the order of the weights.
        forward: (sums, c of the time before) → (h, c, four numbers that are kept).
        backward: (the gradients for h and c, c before and after, the numbers that are kept) → the gradients.
    """

    of_x: tuple[int, ...]
    of_h: tuple[int, ...]
    forward: Callable[[Emitter, list[Value], Value], tuple[Value, Value, list[Value]]]
    backward: Callable[[Emitter, Value, Value, tuple[Value, Value], list[Value]], Change]

    @property
    def products(self) -> int:
        """Return in how many products' gradients a layer's sums appear: one if x and h are added to the same."""
        return len({self.of_x, self.of_h})


def lstm_forward(e: Emitter, z: list[Value], c: Value) -> tuple[Value, Value, list[Value]]:
    """Emit c = σ(f)·c₋₁ + σ(i)·tanh(g);  h = σ(o)·tanh(c)."""
    i, f, g, o = sigmoid(e, z[0]), sigmoid(e, z[1]), tanh(e, z[2]), sigmoid(e, z[3])
    c = e.multiply_add(e.b.fmul(i, g), f, c)
    return e.b.fmul(o, tanh(e, c)), c, [i, f, g, o]


def lstm_backward(e: Emitter, dh: Value, dc: Value, cells: tuple[Value, Value], gates: list[Value]) -> Change:
    """Emit dc += dh·o·(1 - tanh²(c));  di = dc·g;  df = dc·c₋₁;  dg = dc·i;  do = dh·tanh(c);  dc₋₁ = dc·f."""
    times, (before, c), (i, f, g, o) = e.b.fmul, cells, gates
    t = tanh(e, c)
    dc = e.multiply_add(dc, times(dh, o), rest(e, times(t, t)))
    sums = [
        times(times(dc, g), slope(e, i)),
        times(times(dc, before), slope(e, f)),
        times(times(dc, i), rest(e, times(g, g))),
        times(times(dh, t), slope(e, o)),
    ]
    return Change(sums, times(dc, f))


def gru_forward(e: Emitter, s: list[Value], h: Value) -> tuple[Value, Value, list[Value]]:
    """Emit r, z = σ(…);  n = tanh(nₓ + r·nₕ);  h = (1 - z)·n + z·h₋₁."""
    r, z = sigmoid(e, s[0]), sigmoid(e, s[1])
    n = tanh(e, e.multiply_add(s[2], r, s[3]))
    h = e.multiply_add(e.b.fmul(rest(e, z), n), z, h)
    return h, h, [r, z, n, s[3]]


def gru_backward(e: Emitter, dh: Value, dc: Value, cells: tuple[Value, Value], gates: list[Value]) -> Change:
    """Emit dn = dh·(1 - z)·(1 - n²);  dr = dn·nₕ;  dz = dh·(h₋₁ - n);  dnₕ = dn·r;  dh₋₁ = dh·z."""
    times, (before, _), (r, z, n, of_h) = e.b.fmul, cells, gates
    dh = e.b.fadd(dh, dc)
    dn = times(times(dh, rest(e, z)), rest(e, times(n, n)))
    sums = [
        times(times(dn, of_h), slope(e, r)),
        times(times(dh, e.b.fsub(before, n)), slope(e, z)),
        dn,
        times(dn, r),
    ]
    return Change(sums, times(dh, z))


def rest(e: Emitter, a: Value) -> Value:
    """Emit 1 - a."""
    return e.b.fsub(constant(e, 1.0), a)


def slope(e: Emitter, a: Value) -> Value:
    """Emit a·(1 - a)."""
    return e.b.fmul(a, rest(e, a))


GATES = {
    "lstm": Gates((0, 1, 2, 3), (0, 1, 2, 3), lstm_forward, lstm_backward),
    "gru": Gates((0, 1, 2), (0, 1, 3), gru_forward, gru_backward),
}
