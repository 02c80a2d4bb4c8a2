from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

import fedloom as fl
import fedloom.engines.devices as machine
import fedloom.kernels.processor as processor
from fedloom.data import FederatedData
from fedloom.data.shapes import shapes_of
from fedloom.engines import compiled
from fedloom.engines.plan import lane_bytes
from fedloom.tasks.convolve import BUSY

EXAMPLES = {"x": np.zeros((4, 28, 28), np.uint8), "y": np.zeros(4, np.uint8)}


def test_a_lane_needs_room_for_patches_where_it_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "width", lambda: 0)
    needs = lambda rows: lane_bytes(fl.tasks.cnn(), fl.fedavg(batch_size=rows).local, shapes_of(EXAMPLES), rows)  # noqa: E731
    patches = (BUSY - 1) * 7 * 7 * 9 * (4 * 32) * 4  # of the second convolution's blocks
    assert needs(BUSY - 1) > needs(BUSY) + patches


def test_as_many_experiments_as_fit_an_accelerator_with_the_lanes_they_use(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = fl.tasks.logistic(inputs=4, classes=3)
    even, uneven = generated([100] * 10), generated([820] + [20] * 9)  # one client has most of the steps
    how, robust = (fl.fedavg(fraction=1.0, combiner=c) for c in (fl.combine.mean, fl.combine.median()))
    lane = lane_bytes(task, how.local, shapes_of(even.columns), 10)
    monkeypatch.setattr(machine, "devices", lambda: (SimpleNamespace(platform="gpu"),))
    monkeypatch.setattr(machine, "memory", lambda _: 2 * 20 * lane)  # half of it is for lanes
    assert compiled().group(even, task, how) == 2  # ten lanes each
    assert compiled().group(uneven, task, how) == 10  # two: more would wait for the longest
    assert compiled().group(uneven, task, robust) == 2  # all replies are kept
    assert compiled(lanes=4).group(even, task, how) == 5
