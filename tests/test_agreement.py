"""Agreement with an independent implementation: Flower's server loop and FedAvg, with clients in plain NumPy.

The same model, images, cohorts, batches and first weights; then every weight is compared, in a process of its own.
"""

import json
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
MISSING = "Flower is missing, nothing is compared with it: run benchmarks/peers.sh, or install flwr beside fedloom"
pytestmark = pytest.mark.filterwarnings("default:Flower is missing")  # told after every run, not only with -rs


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    """What the script prints."""
    if not (ROOT / ".peers" / "flower" / "bin" / "python").exists() and find_spec("flwr") is None:
        warnings.warn(MISSING, stacklevel=1)
        pytest.skip(MISSING)
    command = [sys.executable, "benchmarks/agreement.py", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_weight_agrees_in_float64(record: dict[str, Any]) -> None:
    differences = record["float64"]["after_each_round"]["one core"]
    assert len(differences) == 5
    assert max(differences) <= 1e-12, differences
    assert record["float64"]["after_one_step"] <= 1e-12
    assert min(record["float64"]["moved"]) > 1e-2


def test_one_step_agrees_in_float32(record: dict[str, Any]) -> None:
    assert record["float32"]["after_one_step"] <= 1e-7


def test_a_mistake_is_seen(record: dict[str, Any]) -> None:
    mistakes = record["float64"]["mistakes"]
    assert mistakes.keys() == {"equal weights", "not shuffled"}
    for mistake, differences in mistakes.items():
        assert min(differences) > 1e-3, f"{mistake}: {differences}"
