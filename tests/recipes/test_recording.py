import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedloom.engines.devices import cores
from fedloom.errors import CheckpointError
from fedloom.recipes.cell import Cell, Trial
from fedloom.recipes.conduct import Conduct
from fedloom.recipes.part import Found, Part
from fedloom.recipes.partial import Partial, place
from fedloom.recipes.recorded import recorded_fields
from fedloom.recipes.recording import Manner, device, missing, record_missing, recorded, spent
from fedloom.recipes.series import Columns, Series, measured
from fedloom.runs import Experiment, History
from fedloom.runs.checkpoint import write_text
from fedloom.runs.ongoing import Watch

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
    other = place(tmp_path, "cell", "bfloat16", device()) / "of.json"
    write_text(other, "left alone")
    record_missing([part], "", manner(tmp_path, "float32"))
    assert other.read_text() == "left alone"
    assert [file.name for file in other.parents[1].iterdir()] == [other.parent.name]
    assert (tmp_path / "cell.json").exists()


def test_a_cell_under_way_is_found_until_it_is_finished(tmp_path: Path) -> None:
    part = Part("p", "", (Cell("cell", TOY, 0.1, targets=(0.3,)),))
    trial = Trial(0.1, 1.0, 0, "test accuracy reached 0.3", ((0, 0.1), (2, 0.3)))
    of = {"experiment": recorded_fields(TOY), "device": "another"}
    Partial(place(tmp_path, "cell", "float32", "another"), of).add([trial], raced=True, seconds=4.0)
    found = recorded([part], tmp_path)
    assert found.unfinished["cell"].trials == (trial,)
    assert found.unfinished["cell"].about == {**of, "seconds": 4.0}
    assert missing([part], found, quick=False) == ["cell"]
    record_missing([part], "", manner(tmp_path, "float32"))  # on this device, which the other's trials do not hinder
    found = recorded([part], tmp_path)
    assert "cell" in found.outcomes
    assert not found.unfinished


def test_what_is_under_way_of_another_experiment_is_told_of(tmp_path: Path) -> None:
    part = Part("p", "", (Cell("cell", TOY, 0.1, targets=(0.3,)),))
    trial = Trial(0.1, 1.0, 0, "did 2 rounds", ((0, 0.1), (2, 0.2)))
    of = {"experiment": recorded_fields(TOY.replace(epochs=7)), "device": "A"}
    Partial(place(tmp_path, "cell", "float32", "A"), of).add([trial], raced=True, seconds=4.0)
    with pytest.raises(CheckpointError, match=r"cell\.partial is of another experiment .*'epochs': 7"):
        recorded([part], tmp_path)


def test_curves_of_cells_that_are_new_are_run_at_once(tmp_path: Path) -> None:
    def series(found: Found) -> list[Series]:
        return [Series(f"portrait-{name}", TOY) for name in found.outcomes]

    part = Part("p", "", (Cell("cell", TOY, 0.1, targets=(0.3,)),), series=series)
    record_missing([part], "", manner(tmp_path, "float32"))
    assert {file.name for file in tmp_path.iterdir()} == {"cell.json", "portrait-cell.json"}


def test_when_the_time_is_over_it_says_so_and_goes_on_later(tmp_path: Path) -> None:
    part, said = Part("p", "", (Cell("cell", TOY, 0.1, targets=(0.3,)),)), list[str]()
    assert record_missing([part], "", manner(tmp_path, "float32", 0.0, said))
    assert said == ["0 seconds are over: go on with the same command"]
    assert not list(tmp_path.glob("*.json"))
    assert not record_missing([part], "", manner(tmp_path, "float32"))
    assert (tmp_path / "cell.json").exists()


def test_a_series_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """Of two runs the first had ended; the second was stopped in round 3."""
    seen, e = list[tuple[str, int]](), TOY.replace(rounds=6, target=None)

    def make(e: Experiment, conduct: Conduct) -> Columns:
        each = {s: replace(conduct, folder=conduct.folder and conduct.folder / str(s)) for s in (0, 1)}
        return {f"{s} loss": measured(e.replace(seed=s), mine)["test_loss"] for s, mine in each.items()}

    def begin(labels: Sequence[str]) -> Watch:
        def watch(histories: Sequence[History]) -> None:
            seen.append((labels[0], int(histories[0].last("round"))))
            if len(seen) == 7 + 4:
                signal.raise_signal(signal.SIGINT)

        return watch

    live: Any = lambda _: nullcontext(begin)  # noqa: E731
    part, calm = Part("p", "", series=lambda _: (Series("line", e, make),)), manner(tmp_path, "float32")
    with pytest.raises(KeyboardInterrupt):
        record_missing([part], "", replace(calm, live=live))
    stopped = len(seen)
    assert spent(place(tmp_path, "line", "float32", device())) > 0
    record_missing([part], "", replace(calm, live=live))
    assert [round for _, round in seen[stopped:]] == [4, 5, 6]
    kept = json.loads((tmp_path / "line.json").read_text())["columns"]
    whole = make(e, Conduct())
    assert kept == {name: [float(f"{v:.6g}") for v in values] for name, values in whole.items()}
    assert not list(tmp_path.glob("*.partial"))


def test_every_core_is_asked_for() -> None:
    """What computes a cell on a CPU has a device a core: JAX can be asked before its first computation alone."""
    code = "from fedloom.engines.devices import devices; from fedloom.recipes.recording import device; device(); "
    count = [sys.executable, "-W", "error", "-c", code + "print(len(devices()))"]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    assert int(subprocess.run(count, capture_output=True, check=True, env=environment).stdout) == cores()


def test_what_is_missing_is_told_by_name(tmp_path: Path) -> None:
    cells = tuple(
        Cell(name, TOY.replace(model=model, fraction=0.1), 0.1, targets=(0.3,))
        for name, model in (("a", "2nn"), ("b", "cnn"))
    )
    series = [Series("line", TOY), Series("fast", TOY, quick=True)]
    part = Part("p", "", cells, series=lambda _: series)
    assert missing([part], Found(), quick=False) == ["a", "b", "line", "fast"]
    assert missing([part], Found(), quick=True) == ["a", "fast"]
    record_missing([part], "line", manner(tmp_path, "float32"))
    assert missing([part], recorded([part], tmp_path), quick=False) == ["a", "b", "fast"]
