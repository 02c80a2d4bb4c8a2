"""Transpose: a square of numbers in vector registers, its rows as columns."""

from __future__ import annotations

import llvmlite.ir as ir

from fedloom.kernels.emitter import INT32, Emitter, Value


def transposed(e: Emitter, rows: list[Value]) -> list[Value]:
    """Emit the transposed square of as many vectors as a vector has values: halves change places, then quarters …"""
    apart = len(rows) // 2
    while apart:
        found = list(rows)
        for i in (i for i in range(len(rows)) if not i & apart):
            above, below = rows[i], rows[i + apart]
            found[i] = _mixed(e, above, below, [j if not j & apart else e.width + j - apart for j in range(e.width)])
            found[i + apart] = _mixed(
                e, above, below, [j + apart if not j & apart else e.width + j for j in range(e.width)]
            )
        rows, apart = found, apart // 2
    return rows


def _mixed(e: Emitter, a: Value, b: Value, lanes: list[int]) -> Value:
    return e.b.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT32, e.width), lanes))
