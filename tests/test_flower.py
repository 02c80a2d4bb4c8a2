"""Agreement with an independent implementation: Flower's server loop and FedAvg, with clients in plain NumPy.

The same model, images, cohorts, batches and first weights; then every weight is compared.
"""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
if not (ROOT / ".peers" / "flower" / "bin" / "python").exists():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("flwr", reason="needs Flower: run benchmarks/peers.sh, or install flwr beside fedloom")


def compared(kind: str, output: Path) -> dict[str, Any]:
    """The script's record, in one type; each system in a process of its own."""
    command = [sys.executable, "benchmarks/flower.py", "agree", "--quick", "--types", kind, "--output", str(output)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(output.read_text())[kind]
    return found


def test_every_weight_agrees_in_float64(tmp_path: Path) -> None:
    found = compared("float64", tmp_path / "record.json")
    differences = found["after_each_round"]["one core"]
    assert len(differences) == 5
    assert all(d <= 1e-9 for d in differences), differences
    assert found["after_one_step"] <= 1e-12
    for mistake, differences in found["mistakes"].items():  # the comparison can fail
        assert all(d > 1e-3 for d in differences), f"{mistake}: {differences}"


def test_one_step_agrees_in_float32(tmp_path: Path) -> None:
    found = compared("float32", tmp_path / "record.json")
    assert found["after_one_step"] <= 1e-7
    assert min(found["moved"]) > 1e-2
