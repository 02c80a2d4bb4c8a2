import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from fedloom.engines.devices import cores
from fedloom.recipes.cell import Cell
from fedloom.recipes.part import Found, Part
from fedloom.recipes.recording import Manner, record_missing
from fedloom.recipes.series import Series
from fedloom.runs import Experiment

TOY = Experiment(model="logistic", clients=600, fraction=0.01, rounds=2, target=0.3, evaluate="test")


def manner(folder: Path, precision: str, seconds: float = float("inf"), said: list[str] | None = None) -> Manner:
    live: Any = lambda _: nullcontext(None)  # noqa: E731
    return Manner("toy", folder, False, seconds, precision, live, ([] if said is None else said).append)


@pytest.mark.parametrize(("asked", "own", "told"), [
    ("bfloat16", "float32", "bfloat16"), ("float32", "bfloat16", "bfloat16"),
])  # fmt: skip
def test_what_is_recorded_says_what_it_was_computed_in(tmp_path: Path, asked: str, own: str, told: str) -> None:
    e = TOY.replace(precision=own)
    part = Part("p", "", (Cell("cell", e, 0.1, targets=(0.3,)),), series=lambda _: (Series("line", e),))
    record_missing([part], "", manner(tmp_path, asked))
    for name in ("cell", "line"):
        kept = json.loads((tmp_path / f"{name}.json").read_text())
        assert kept["experiment"].get("precision") == told
        assert ("--precision bfloat16" in kept["command"]) == (asked == "bfloat16")
    assert not list(tmp_path.glob("*.partial"))


def test_trials_of_another_precision_are_not_mixed_in(tmp_path: Path) -> None:
    part = Part("p", "", (Cell("cell", TOY, 0.1, targets=(0.3,)),))
    (tmp_path / "cell-bfloat16.partial").write_text("left alone")
    record_missing([part], "", manner(tmp_path, "float32"))
    assert (tmp_path / "cell-bfloat16.partial").read_text() == "left alone"
    assert (tmp_path / "cell.json").exists()


def test_curves_of_cells_that_are_new_are_run_at_once(tmp_path: Path) -> None:
    def series(found: Found) -> list[Series]:
        return [Series(f"portrait-{name}", TOY) for name in found.outcomes]

    part = Part("p", "", (Cell("cell", TOY, 0.1, targets=(0.3,)),), series=series)
    record_missing([part], "", manner(tmp_path, "float32"))
    assert {file.name for file in tmp_path.iterdir()} == {"cell.json", "portrait-cell.json"}


def test_when_the_time_is_over_it_says_so_and_goes_on_later(tmp_path: Path) -> None:
    part, said = Part("p", "", (Cell("cell", TOY, 0.1, targets=(0.3,)),)), list[str]()
    record_missing([part], "", manner(tmp_path, "float32", 0.0, said))
    assert said == ["0 seconds are over: go on with the same command"]
    assert not list(tmp_path.glob("*.json"))
    record_missing([part], "", manner(tmp_path, "float32"))
    assert (tmp_path / "cell.json").exists()


def test_every_core_is_asked_for() -> None:
    """What computes a cell on a CPU has a device a core: JAX can be asked before its first computation alone."""
    code = "from fedloom.engines.devices import devices; from fedloom.recipes.recording import device; device(); "
    count = [sys.executable, "-W", "error", "-c", code + "print(len(devices()))"]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    assert int(subprocess.run(count, capture_output=True, check=True, env=environment).stdout) == cores()
