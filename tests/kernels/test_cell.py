"""Cell: the arranged weights number by number, and the accuracy of sigmoids and hyperbolic tangents."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.kernels.processor import reason, width

if reason():
    pytest.skip(reason(), allow_module_level=True)

from fedloom.kernels.call import call_for
from fedloom.kernels.cell import Cell

SPACING = 2.0**-23


def test_weights_are_arranged_by_vector_input_gate_and_unit() -> None:
    inputs, hidden = width() + 3, 2 * width()
    cell = Cell("gru", 1, 1, inputs, hidden, back=False, batch_first=False)
    wi = np.arange(3 * hidden * inputs, dtype=np.float32).reshape(-1, inputs)
    wh = -np.arange(3 * hidden * hidden, dtype=np.float32).reshape(-1, hidden)
    [found] = call_for("cell_weights", cell, [(2, inputs + hidden, 3, width())], wi, wh)
    both = np.concatenate([wi, wh], axis=1).reshape(3, 2, width(), -1)
    assert (np.asarray(found) == both.transpose(1, 3, 0, 2)).all()


def test_activations_are_accurate_to_a_few_units_in_the_last_place() -> None:
    small = np.geomspace(1e-12, 100, 60)
    z = np.concatenate([-small, small, [0.0, 88.0, -88.0, -1e30, 1e30, np.inf, -np.inf, 0.5]]).astype(np.float32)
    hidden = len(z)
    assert hidden % width() == 0
    cell = Cell("lstm", 1, 1, 1, hidden, back=False, batch_first=False)
    zeros = [np.zeros(s, np.float32) for s in ((1, 1, 1), (1, hidden), (1, hidden), (1 + hidden, 4 * hidden))]
    sizes = [(1, 1, hidden)] * 2 + [(2, 1, hidden), (hidden // width(), 4, width())]
    kept = np.asarray(call_for("cell_forward", cell, sizes, *zeros, jnp.tile(z, 4))[3], np.float64)
    i, f, g, o = kept.transpose(1, 0, 2).reshape(4, hidden)
    exact = z.astype(np.float64)
    with np.errstate(over="ignore"):
        sigmoid = 1 / (1 + np.exp(-exact))
    for gate in (i, f, o):
        np.testing.assert_allclose(gate, sigmoid, rtol=4 * SPACING, atol=2e-38)
    np.testing.assert_allclose(g, np.tanh(exact), rtol=6 * SPACING)
