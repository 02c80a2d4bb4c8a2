"""What the tests share: small data, and JAX set up once, before anything computes."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedloom.data import FederatedData, Ranges
from fedloom.engines import compiled

if worker := os.environ.get("PYTEST_XDIST_WORKER"):  # tests side by side: compiled programs of its own for each process
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    os.environ["XDG_CACHE_HOME"] = str(home / "fedloom-tests" / worker)

collect_ignore = ["mpi_cases.py", "mpi_faults.py"]  # what ranks run; they have no tests of their own

if hurried := "XLA_FLAGS" not in os.environ:  # programs that run for milliseconds are compiled quickly, not well
    os.environ["XLA_FLAGS"] = " ".join((
        "--xla_cpu_use_fusion_emitters=false",
        "--xla_backend_optimization_level=0",
        "--xla_llvm_disable_expensive_passes=true",
    ))  # fmt: skip
compiled()  # shows every core to JAX and turns the compilation cache on, before any test computes
if hurried:
    del os.environ["XLA_FLAGS"]  # what tests start in other processes trains for real


def make(sizes: list[int], features: int = 4, classes: int = 3, seed: int = 0, test: int = 30) -> FederatedData:
    """Generated examples: client k has sizes[k] of them, and nobody the last ``test``."""
    rng = np.random.default_rng(seed)
    total = sum(sizes)
    x = rng.normal(size=(total + test, features)).astype(np.float32)
    y = np.argmax(x @ rng.normal(size=(features, classes)), axis=1).astype(np.int32)
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
    index = rng.permutation(total).astype(np.int32)
    clients = {"train": Ranges(start, np.array(sizes, np.int32))}
    return FederatedData("generated", {"x": x, "y": y}, classes, index, clients, {"test": total + np.arange(test)})


@pytest.fixture
def generated() -> Callable[..., FederatedData]:
    return make


@pytest.fixture
def validated(generated: Callable[..., FederatedData]) -> Callable[[list[int]], FederatedData]:
    """Generated data of which each client keeps the last third for validation."""

    def split(sizes: list[int]) -> FederatedData:
        data = generated(sizes)
        whole = data.clients["train"]
        held = whole.size // 3
        left = whole.size - held
        data.clients["train"] = Ranges(whole.start, left)
        data.clients["validation"] = Ranges(whole.start + left, held)
        return data

    return split
