"""Tiles of the forward pass and of the gradient of images."""

import pytest

pytest.importorskip("llvmlite")

from fedloom.kernels.gather import REGISTERS, parts, tile


@pytest.mark.parametrize("width", REGISTERS)
@pytest.mark.parametrize("vectors", [1, 3, 8, 64])
@pytest.mark.parametrize("rows", [1, 7])
def test_tiles_fit_into_the_registers(width: int, vectors: int, rows: int) -> None:
    for outputs in range(1, 40):
        found = tile(outputs, rows, vectors, (3, 3), width)
        assert found.depth * found.rows * found.span <= REGISTERS[width]
        assert found.depth <= outputs
        assert found.rows <= rows
        assert found.span <= vectors


def test_several_rows_share_what_they_read_only_with_all_channels() -> None:
    """A depthwise convolution reads each row of the image for three rows of the result."""
    assert tile(1, 32, 64, (3, 3), 16).rows > 1
    assert tile(64, 32, 64, (3, 3), 16).rows == 1


def test_parts() -> None:
    assert parts(8, 3) == [(3, 2), (2, 1)]
    assert parts(6, 3) == [(3, 2)]
    assert parts(0, 3) == []
