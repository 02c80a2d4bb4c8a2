import subprocess
import sys

import jax
import numpy as np
from hurry import hurried

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
import fedloom.engines, fedloom.machine as machine
machine.cores = lambda: 7
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fedloom.engines.compiled()
print([str(w.message) for w in caught])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "before fedloom could ask for 7" in out


def test_one_and_eight_devices_give_the_same_model() -> None:
    """Virtual ones, of this machine's cores; clients' work is added up in another order, so to rounding."""
    code = """
import jax
jax.config.update("jax_num_cpu_devices", 8)
import fedloom as fl, numpy as np
data = fl.data.mnist().partition(fl.partition.iid(2000))
how = fl.fedavg(fraction=0.01, lr=0.1)
runs = [fl.run(data, fl.tasks.logistic(), how, rounds=2, evaluate=["test"], engine=fl.engines.compiled(devices=n))
        for n in (1, 8)]
one, eight = (run.variables.params["output"]["w"] for run in runs)
print(len(jax.devices()), float(np.abs(one).max()), float(np.abs(one - eight).max()))
print(runs[0].history.last("test_accuracy") == runs[1].history.last("test_accuracy"))
"""
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=hurried()).stdout.split()
    assert out[0] == "8"
    assert float(out[1]) > 0.01
    assert float(out[2]) < 1e-7
    assert out[3] == "True"
