"""Checks before anything is computed."""

import subprocess
import sys

SCRIPT = """
import jax.numpy as jnp
from jax._src import xla_bridge
import fedloom as fl
from fedloom.runs.checks import check

mine = fl.tasks.from_function(lambda key: {"w": jnp.ones((784, 10))}, lambda p, x: x.reshape(len(x), -1) / 255 @ p["w"])
check(fl.fedavg(), mine, fl.data.mnist().partition(fl.partition.iid(10)))
print(xla_bridge.backends_are_initialized())
"""


def test_checking_computes_nothing() -> None:
    """A computation would settle how many devices there are before an engine has asked for one a core."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
