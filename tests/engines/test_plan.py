import numpy as np

import fedloom as fl
from fedloom.engines.plan import lane_bytes
from fedloom.tasks.convolve import BUSY

EXAMPLES = {"x": np.zeros((4, 28, 28), np.uint8), "y": np.zeros(4, np.uint8)}


def test_a_lane_needs_room_for_patches_where_it_makes_them() -> None:
    needs = lambda rows: lane_bytes(fl.tasks.cnn(), fl.fedavg(batch_size=rows), EXAMPLES, rows)  # noqa: E731
    patches = (BUSY - 1) * 7 * 7 * 9 * (4 * 32) * 4  # of the second convolution's blocks
    assert needs(BUSY - 1) > needs(BUSY) + patches
