"""What the tests share: small data, and JAX set up once, before anything computes."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hurry import hurried

from fedloom.data import FederatedData, Ranges
from fedloom.engines import compiled

if worker := os.environ.get("PYTEST_XDIST_WORKER"):  # tests side by side: compiled programs of its own for each process
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    os.environ["XDG_CACHE_HOME"] = str(home / "fedloom-tests" / worker)

LONG = (
    "test_examples.py", "test_product.py", "test_ranks.py", "test_ray.py", "test_cli.py", "test_compiled.py",
    "test_runner.py",
)  # fmt: skip
collect_ignore = ["mpi_cases.py", "mpi_faults.py"]  # what ranks run; they have no tests of their own

TOLD = "XLA_FLAGS" in os.environ
os.environ.update(hurried())
compiled()  # shows every core to JAX and turns the compilation cache on, before any test computes
if not TOLD:
    del os.environ["XLA_FLAGS"]  # what tests start in other processes hurries if it is told to


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first: where files are dealt to processes, all end at about the same time."""
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


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


@pytest.fixture(scope="session")
def generated() -> Callable[..., FederatedData]:
    return make


@pytest.fixture(scope="session")
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
