"""Checks before anything is computed."""

import subprocess
import sys

SCRIPT = """
import jax.numpy as jnp
import jax
import fedloom as fl
from fedloom.machine import cores
from fedloom.runs.checks import check

mine = fl.tasks.from_function(lambda key: {"w": jnp.ones((784, 10))}, lambda p, x: x.reshape(len(x), -1) / 255 @ p["w"])
check(fl.fedavg(), mine, fl.data.mnist().partition(fl.partition.iid(10)))
print(jax.default_backend() != 'cpu' or len(jax.devices()) == cores())
"""


def test_checking_asks_for_every_core() -> None:
    """JAX's first computation settles how many devices there are."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
