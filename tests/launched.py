"""What tests over MPI share: a small data set, and ranks started as a user starts them."""

import os
import shutil
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hurry import hurried

from fedloom.settings import cache_folder

ROOT = Path(__file__).resolve().parent.parent
MISSING = "MPI is missing, nothing is sent between ranks: pip install 'fedloom[mpi]'"
SURVIVING = ("sh", "-c", "trap '' USR1; \"$@\" || exit 1", "sh")  # what a rank is started in, to outlive others

ENVIRONMENT = {
    "JAX_ENABLE_X64": "1",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # remember every program, however small
    "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
    "COLUMNS": "200",
}


def mpiexec() -> str:
    """The command that starts ranks; a loud skip where there is none."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None or find_spec("mpi4py") is None:
        warnings.warn(MISSING, stacklevel=1)
        pytest.skip(MISSING)
    return found


def launch(ranks: int, script: str, *arguments: str, left_alive: bool = False, **environment: str) -> tuple[int, str]:
    """Ranks that run a script of this folder in float64: exit status, and what they print."""
    inside = SURVIVING if left_alive else ()
    options = ("-disable-auto-cleanup",) if left_alive else ()
    command = [mpiexec(), *options, "-n", str(ranks), *inside, sys.executable, str(ROOT / "tests" / script), *arguments]
    given = {**hurried(), **ENVIRONMENT, "JAX_COMPILATION_CACHE_DIR": str(cache_folder("xla")), **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=given)
    return done.returncode, done.stdout + done.stderr


def write_toy(folder: Path) -> Path:
    """Eight users with 20 to 90 examples each, in a file."""
    rng, sizes = np.random.default_rng(0), 10 * np.arange(2, 10)
    x = rng.normal(size=(sizes.sum(), 4)).astype(np.float32)
    y = np.argmax(x @ rng.normal(size=(4, 3)), axis=1).astype(np.int32)
    np.savez(folder / "toy.npz", x=x, y=y, user=np.repeat(np.arange(8), sizes))
    return folder / "toy.npz"
