"""Sums of outer products: whole numbers, which are summed exactly, in tiles that fit and that do not."""

import numpy as np
import pytest

from fedloom.kernels.processor import reason

if reason():
    pytest.skip(reason(), allow_module_level=True)

from fedloom.kernels.recurrent import summed_products


@pytest.mark.parametrize(("rows", "left", "right"), [(1, 1, 1), (64, 6, 64), (65, 7, 67), (200, 13, 33), (3, 100, 5)])
def test_sums_are_exact(rows: int, left: int, right: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, (rows, n)).astype(np.float32) for n in (left, right))
    assert (np.asarray(summed_products(a, b)) == a.T @ b).all()
