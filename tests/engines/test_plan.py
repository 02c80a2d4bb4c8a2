import numpy as np
import pytest

import fedloom as fl
from fedloom.engines.plan import lane_bytes

EXAMPLES = {"x": np.zeros((4, 28, 28), np.uint8), "y": np.zeros(4, np.uint8)}


@pytest.mark.parametrize(("rows", "patched"), [(50, True), (600, False)])
def test_a_lane_needs_room_for_patches_where_it_makes_them(rows: int, patched: bool) -> None:
    patches = rows * 14 * 14 * 25 * 32 * 4  # of the second convolution; that for its gradient needs as much again
    found = lane_bytes(fl.tasks.cnn(), fl.fedavg(batch_size=rows), EXAMPLES, rows)
    assert (found > 2 * patches) == patched
