"""The examples do what they say."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hurry import hurried
from safetensors.numpy import save_file

import fedloom as fl
from fedloom.data.sources.cifar10 import BATCHES
from fedloom.runs import Experiment

ROOT = Path(__file__).parents[1]


def python(*arguments: str, cwd: Path) -> str:
    environment = hurried() | {"PYTHONPATH": str(ROOT), "FEDLOOM_DATA": str(cwd)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_kept_model_is_read_with_numpy_alone(tmp_path: Path) -> None:
    data = fl.data.mnist().partition(fl.partition.iid(100))
    run = fl.run(data, fl.tasks.two_nn(), fl.fedavg(lr=0.1), rounds=1, evaluate=["test"], directory=tmp_path / "a")
    read = python(str(ROOT / "examples" / "load_model.py"), "a/model.safetensors", cwd=tmp_path)
    assert f"test accuracy {run.history.last('test_accuracy'):.2%}" in read


def test_another_model_than_the_2nn_is_refused_in_a_sentence(tmp_path: Path) -> None:
    save_file({"params.output.w": np.zeros((784, 10))}, tmp_path / "other.safetensors")
    command = [sys.executable, str(ROOT / "examples" / "load_model.py"), "other.safetensors"]
    environment = hurried() | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("other.safetensors is no 2NN for MNIST")


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.toml")), ids=lambda file: file.stem)
def test_experiment_files_are_experiments(file: Path) -> None:
    experiment = Experiment.read(file)
    assert Experiment.from_toml(experiment.to_toml()) == experiment
    assert len(file.read_text().splitlines()[0]) > 20  # it says what it is


@pytest.mark.slow
def test_quickstart(tmp_path: Path) -> None:
    told = python(str(ROOT / "examples" / "quickstart.py"), cwd=tmp_path)
    even, shards = (float(found) for found in re.findall(r"test accuracy in the last round (\d+\.\d\d)%", told))
    assert even > 95
    assert 80 < shards < even
    assert (tmp_path / "iid-and-shards.png").exists()


def few_colours(folder: Path) -> None:
    """A CIFAR-10 of 1,000 + 200 images, at random."""
    images = np.random.default_rng(0).integers(0, 256, (200, 1 + 3 * 32 * 32), np.uint8)
    images[:, 0] %= 10
    for name in BATCHES:
        (folder / f"{name}.bin").write_bytes(images.tobytes())


@pytest.mark.parametrize(
    ("name", "arguments", "needs", "left"),
    [
        pytest.param("flax_transformer", ["1", "1000"], ["flax"], [], marks=pytest.mark.slow),
        pytest.param("sklearn_csv", ["1"], ["sklearn"], ["people.csv"], marks=pytest.mark.slow),
        ("search", ["1", "1"], ["optuna"], []),
        pytest.param("keras_cnn", ["1", "2000"], ["keras"], ["mnist.keras"], marks=pytest.mark.slow),
        pytest.param("torch_resnet", ["1", "1"], ["torch", "torchax"], ["resnet.pt"], marks=pytest.mark.slow),
    ],
)
def test_scripts_run_by_themselves(
    name: str, arguments: list[str], needs: list[str], left: list[str], tmp_path: Path
) -> None:
    for library in needs:
        pytest.importorskip(library)
    few_colours(tmp_path)
    told = python(str(ROOT / "examples" / f"{name}.py"), *arguments, cwd=tmp_path)
    assert re.search(r"accuracy \d+\.\d\d%", told)
    assert all((tmp_path / file).exists() for file in left)
