"""What the tests share: small data, and JAX set up once, before anything computes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from generated import make, make_validated
from hurry import hurried

from fedloom.data import FederatedData
from fedloom.engines import compiled

if worker := os.environ.get("PYTEST_XDIST_WORKER"):  # tests side by side: compiled programs of its own for each process
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    os.environ["XDG_CACHE_HOME"] = str(home / "fedloom-tests" / worker)

LONG = (
    "test_examples.py", "test_product.py", "test_ranks.py", "test_ray.py", "test_cli.py", "test_compiled.py",
    "test_runner.py", "test_one_lane.py", "test_lanes.py", "test_two_devices.py",
)  # fmt: skip
collect_ignore = ["mpi_cases.py", "mpi_faults.py", "golden/regenerate.py"]  # programs without tests of their own

TOLD = "XLA_FLAGS" in os.environ
os.environ.update(hurried())
compiled()  # shows every core to JAX and turns the compilation cache on, before any test computes
if not TOLD:
    del os.environ["XLA_FLAGS"]  # what tests start in other processes hurries if it is told to


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first: where files are dealt to processes, all end at about the same time."""
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


@pytest.fixture(scope="session")
def generated() -> Callable[..., FederatedData]:
    return make


@pytest.fixture(scope="session")
def validated() -> Callable[[list[int]], FederatedData]:
    return make_validated
