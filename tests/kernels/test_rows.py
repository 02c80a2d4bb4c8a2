"""How rows fall into vectors, on small cases worked out by hand."""

from fedloom.kernels.rows import Block, Row, blocks, pieces, runs


def test_vectors_run_along_a_row_of_neighbours() -> None:
    """Three columns of six images: a vector of 16 holds two and a half, the next one the rest."""
    row = Row(3, 6, 16, 3, 1, lambda tap: (1, tap))
    first, second = row.vectors
    assert (first[0], first[6], first[15]) == ((0, 0), (1, 0), (2, 3))
    assert second[:3] == ((2, 4), (2, 5), None)
    assert row.filled == 18 / 32


def test_with_strides_a_vector_holds_whole_columns() -> None:
    """Six images fill six lanes of eight; two columns of four images fill one vector of eight."""
    lone = Row(2, 6, 8, 4, 1, lambda tap: (2, tap))
    assert [lanes[5:7] for lanes in lone.vectors] == [((0, 5), None), ((1, 5), None)]
    pair = Row(2, 4, 8, 4, 1, lambda tap: (2, tap))
    assert [lanes[3:5] for lanes in pair.vectors] == [((0, 3), (1, 0))]


def test_columns_outside_the_image_are_not_read() -> None:
    """Padding 1: through tap 0 the first column reads nothing, and the others their left neighbours."""
    row = Row(2, 2, 4, 2, 3, lambda tap: (1, tap - 1))
    [lanes] = row.vectors
    assert [row.reads(lanes, tap) for tap in range(3)] == [((-2, 0b1100),), ((0, 0b1111),), ((2, 0b0011),)]


def test_strides_read_in_pieces_and_phases_write_in_pieces() -> None:
    row = Row(2, 2, 4, 4, 1, lambda tap: (2, 0))  # noqa: ARG005
    [lanes] = row.vectors
    assert row.reads(lanes, 0) == ((0, 0b0011), (2, 0b1100))  # columns 0 and 2
    odd = Row(2, 2, 4, 2, 1, lambda tap: (1, 0), every=2, first=1)  # noqa: ARG005
    [lanes] = odd.vectors
    assert odd.writes(lanes) == ((2, 0b0011), (4, 0b1100))  # columns 1 and 3


def test_taps_that_read_nothing() -> None:
    row = Row(2, 2, 4, 4, 1, lambda tap: None)  # noqa: ARG005
    assert row.reads(row.vectors[0], 0) == ()
    assert pieces([None, None]) == ()


def test_blocks_at_the_borders_are_apart() -> None:
    """Nine columns of four images, a kernel of three with padding one, blocks of four vectors of four."""
    every = blocks(Row(9, 4, 4, 9, 3, lambda tap: (1, tap - 1)), 4)
    assert [(b.base, b.to, b.span) for b in every] == [(0, 0, 4), (16, 16, 4), (32, 32, 1)]
    assert [len(b.reads) for b in every] == [11, 12, 2]  # the first column lacks a left neighbour, the last a right one
    assert [len(run) for run in runs(every)] == [1, 1, 1]


def test_equal_blocks_are_one_run() -> None:
    [run] = runs(blocks(Row(16, 4, 4, 18, 3, lambda tap: (1, tap)), 4))
    assert [(b.base, b.to) for b in run] == [(0, 0), (16, 16), (32, 32), (48, 48)]


def test_a_run_has_one_distance() -> None:
    block = lambda base, to: Block(base, to, (), (((0, 1),),))  # noqa: E731
    every = [block(0, 0), block(4, 4), block(8, 9), block(12, 14)]
    assert [len(run) for run in runs(every)] == [2, 2]
