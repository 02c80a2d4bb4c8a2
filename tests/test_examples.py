"""The examples do what they say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedloom.runs import Experiment

ROOT = Path(__file__).parents[1]


def python(*arguments: str, cwd: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_kept_model_is_read_with_numpy_alone(tmp_path: Path) -> None:
    told = python("-m", "fedloom", "run", "--rounds", "2", "--out", "a", "--evaluate", "test", "--json", cwd=tmp_path)
    read = python(str(ROOT / "examples" / "load_model.py"), "a/model.safetensors", cwd=tmp_path)
    accuracy = float(told.split('"test_accuracy": ')[1].split(",")[0])
    assert f"test accuracy {accuracy:.2%}" in read


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.toml")), ids=lambda file: file.stem)
def test_experiment_files_are_experiments(file: Path) -> None:
    experiment = Experiment.read(file)
    assert Experiment.from_toml(experiment.to_toml()) == experiment
    assert len(file.read_text().splitlines()[0]) > 20  # it says what it is


@pytest.mark.slow
def test_quickstart(tmp_path: Path) -> None:
    assert "best test accuracy 9" in python(str(ROOT / "examples" / "quickstart.py"), cwd=tmp_path)
    assert (tmp_path / "iid-and-shards.png").exists()
