import subprocess
import sys

import jax
import numpy as np

from fedloom.engines import devices as machine


def test_an_aligned_array_is_shared_by_all_devices_without_a_copy() -> None:
    array = machine.aligned(np.arange(1000, dtype=np.float32).reshape(10, 100)[:, ::2])
    assert array.ctypes.data % machine.ALIGNMENT == 0
    assert machine.aligned(array) is array
    placed = machine.place(array, machine.mesh(machine.devices()))
    if jax.default_backend() == "cpu":
        assert {s.data.unsafe_buffer_pointer() for s in placed.addressable_shards} == {array.ctypes.data}
    np.testing.assert_array_equal(placed, array)


def test_every_core_is_a_device() -> None:
    assert len(machine.devices()) == (machine.cores() if jax.default_backend() == "cpu" else len(jax.devices()))


def test_being_too_late_is_said() -> None:
    code = """
import warnings, jax
jax.devices()
from fedloom.engines import devices as machine
machine.cores = lambda: 7
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    machine.devices()
print([str(w.message) for w in caught])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "before fedloom could ask for 7" in out
