"""Plan: which convolutions kernels compute, decided by counted work."""

from __future__ import annotations

import numpy as np

from fedloom.kernels.shape import Shape

FILLED = 0.5
"""Smallest share of a batch in its padded vectors with which kernels win over XLA's convolutions."""
LARGEST = {"taps": 24, "code": 400}
"""Largest width of a kernel, and largest number of columns times taps: beyond these programs are large."""


def pays(shape: Shape, batch: int) -> bool:
    """Return True if a kernel is expected to be faster than XLA's convolution.

    Args:
        shape: the convolution, its batch padded.
        batch: the images without padding.
    """
    from fedloom.kernels.processor import width

    if not width() or batch < FILLED * shape.batch:
        return False
    return shape.kernel[1] <= LARGEST["taps"] and int(np.prod(shape.kernel)) * shape.strides[0] <= LARGEST["code"]
