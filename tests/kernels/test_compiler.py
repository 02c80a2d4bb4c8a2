"""Machine code is kept in the cache folder, checked when it is read, and done without where that cannot be."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedloom.kernels.processor import reason

if reason():
    pytest.skip(reason(), allow_module_level=True)

from fedloom.kernels.compiler import DIGEST, keep, read

SCRIPT = """
import json, sys, time
import numpy as np, jax.numpy as jnp
import fedloom.kernels.compiler as compiler
from fedloom.kernels.convolution import convolve
from fedloom.kernels.processor import width
from fedloom.kernels.shape import Shape
runs = []
optimise = compiler.optimise
compiler.optimise = lambda *given: (runs.append(1), optimise(*given))
x = jnp.arange(9 * width(), dtype=jnp.float32).reshape(1, 3, 3, width())
y = convolve(Shape(width(), (1, 1), (3, 3), (2, 2), (1, 1), (0, 0), (2, 2)), x, jnp.ones((2, 2, 1, 1)))
print(json.dumps([len(runs), np.asarray(y).ravel()[:2].tolist(), width()]))
"""


def run(cache: Path, **environment: str) -> tuple[int, list[float], int]:
    """Return how many programs were compiled, two numbers of the result, and the width, in a process of its own."""
    variables = os.environ | {"XDG_CACHE_HOME": str(cache)} | environment
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=variables, check=True)
    compiled, numbers, width = json.loads(done.stdout)
    return compiled, numbers, width


def test_the_next_process_reads_the_machine_code_and_never_damaged_code(tmp_path: Path) -> None:
    compiled, numbers, width = run(tmp_path)
    first = [sum(place * width for place in (0, 1, 3, 4)), sum(place * width + 1 for place in (0, 1, 3, 4))]
    assert (compiled, numbers) == (1, first)
    assert run(tmp_path)[:2] == (0, first)
    [file] = (tmp_path / "fedloom" / "kernels").glob("*.o")
    content = bytearray(file.read_bytes())
    content[DIGEST + 100] ^= 1
    file.write_bytes(bytes(content))
    assert run(tmp_path)[:2] == (1, first)


def test_with_avx2_alone(tmp_path: Path) -> None:
    _, numbers, width = run(tmp_path, FEDLOOM_KERNELS="avx2")
    assert width == 8
    assert numbers == [64.0, 68.0]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    compiled, *_ = run(tmp_path / "file")
    assert compiled == 1
    keep(tmp_path / "file" / "a.o", b"code")
    assert read(tmp_path / "file" / "a.o") is None
