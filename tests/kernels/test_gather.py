"""Blocks of columns, runs of blocks and tiles, on small cases worked out by hand."""

import pytest

pytest.importorskip("llvmlite")

from fedloom.kernels.gather import Sum, blocks, runs, tile


def test_blocks_at_the_borders_read_fewer_columns() -> None:
    """Nine columns, a kernel of three with padding one: the first block reads columns 0 to 4, the others one before."""
    column = lambda place, tap: place + tap - 1 if 0 <= place + tap - 1 < 9 else None  # noqa: E731
    what = Sum(16, 1, 1, 1, (9, 9), (9, 9), (3, 3), 1, lambda phase, tap: (1, tap - 1), column)  # noqa: ARG005
    every = blocks(what, 4)
    assert [(b.first, b.span, b.base) for b in every] == [(0, 4, 0), (4, 4, 3), (8, 1, 7)]
    assert every[0].taps[:2] == ((1, 0, 0), (2, 0, 1))  # the first column of the image has no left neighbour
    assert [len(run) for run in runs(every)] == [1, 1, 1]


def test_equal_blocks_are_one_run() -> None:
    """Without padding all blocks of a wide image are alike, four columns apart."""
    what = Sum(16, 1, 1, 1, (1, 18), (1, 16), (1, 3), 1, lambda phase, tap: (1, 0), lambda place, tap: place + tap)  # noqa: ARG005
    [run] = runs(blocks(what, 4))
    assert [b.base for b in run] == [0, 4, 8, 12]


def test_tiles_fit_into_the_registers() -> None:
    for outputs in range(1, 40):
        for columns in (1, 3, 8, 32):
            for width, room in ((16, 24), (8, 10)):
                depth, span = tile(outputs, columns, width)
                assert depth * span <= room
