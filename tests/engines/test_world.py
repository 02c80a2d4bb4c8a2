"""Which rank has which workers, and what is said without MPI."""

import sys

import numpy as np
import pytest

from fedloom.engines.mailbox import checked_delays
from fedloom.engines.world import owners, world
from fedloom.errors import ArgumentError, FedloomError


@pytest.mark.parametrize(("workers", "ranks"), [(1, 1), (7, 3), (8, 4), (100, 7)])
def test_blocks_are_contiguous_and_even(workers: int, ranks: int) -> None:
    owner = owners(workers, ranks)
    assert (np.diff(owner) >= 0).all()
    sizes = np.bincount(owner, minlength=ranks)
    assert sizes.sum() == workers
    assert sizes.max() - sizes.min() <= 1


def test_more_ranks_than_workers() -> None:
    with pytest.raises(ArgumentError, match="ranks must be at most as many as there are workers, 2, but is 3"):
        owners(2, 3)


def test_without_mpi_there_is_a_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(FedloomError, match=r"pip install 'fedloom\[mpi\]'"):
        world()


@pytest.mark.parametrize("text", ["-1", "soon", "0,", "nan"])
def test_delays_that_are_none(text: str) -> None:
    with pytest.raises(ArgumentError, match="delay must be seconds"):
        checked_delays(text)
