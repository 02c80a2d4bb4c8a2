"""Plan: which convolutions kernels compute, decided by counted work."""

from __future__ import annotations

import numpy as np

from fedloom.kernels.gather import gradient_of, result_of
from fedloom.kernels.processor import width
from fedloom.kernels.shape import Shape

FILLED = 0.4
"""Smallest share of the vectors' lanes that must compute something."""
PIECES = 4
"""Largest number of pieces in memory that a vector may be read from, or written to."""
LARGEST = {"taps": 24, "code": 400}
"""Largest width of a kernel, and largest number of columns times taps: beyond these programs are large."""


def pays(shape: Shape) -> bool:
    """Return True if a kernel is expected to be faster than XLA's convolution."""
    if not width() or shape.kernel[1] > LARGEST["taps"]:
        return False
    if int(np.prod(shape.kernel)) * shape.strides[0] > LARGEST["code"]:
        return False
    rows = [result_of(shape).row(0, width()), gradient_of(shape).row(0, width())]
    spread = max(len(row.writes(row.vectors[0])) for row in rows)
    return min(row.filled for row in rows) >= FILLED and spread <= PIECES
