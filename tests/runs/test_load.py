"""Loading: state, reason, history and model of a run come from one place."""

import json
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import fedloom as fl
from fedloom.data import FederatedData
from fedloom.engines import compiled
from fedloom.errors import CheckpointError, DivergedError, FedloomWarning
from fedloom.runs import checkpoint
from fedloom.runs.result import HISTORY, MODEL
from fedloom.runs.runner import train
from fedloom.runs.settings import Settings
from fedloom.tasks import Variables
from fedloom.trees import flatten

Make = Callable[..., FederatedData]
TASK = fl.tasks.logistic(inputs=4, classes=3)
ALGORITHM = fl.fedavg(fraction=0.5, server=fl.server("momentum", lr=0.5))
SIZES = [5, 12, 30, 8]


def after(rounds: int, make: Make) -> Variables:
    """The model that a run has after so many rounds."""
    return fl.run(make(SIZES), TASK, ALGORITHM, rounds=rounds).variables


def same(a: Variables, b: Variables) -> bool:
    x, y = flatten(a), flatten(b)
    return x.keys() == y.keys() and all(np.array_equal(x[name], y[name]) for name in x)


@contextmanager
def silent() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FedloomWarning)
        yield


def test_a_run_that_finished_says_so(generated: Make, tmp_path: Path) -> None:
    run = fl.run(generated(SIZES), TASK, ALGORITHM, rounds=3, directory=tmp_path)
    with silent():
        loaded = fl.load(tmp_path)
    assert (loaded.finished, loaded.stopped, loaded.status) == (True, "did 3 rounds", "finished")
    assert repr(loaded) == repr(run)
    assert same(loaded.variables, run.variables)


def test_a_run_that_diverged_says_so_and_has_its_last_good_model(generated: Make, tmp_path: Path) -> None:
    with pytest.raises(DivergedError):
        fl.run(generated(SIZES), TASK, fl.fedavg(fraction=0.5, lr=1e25), rounds=50, directory=tmp_path)
    with silent():
        run = fl.load(tmp_path)
    assert (run.finished, run.diverged, run.interrupted) == (False, True, False)
    assert run.stopped.startswith("diverged: ")
    assert all(np.isfinite(a).all() for a in flatten(run.variables).values())


def test_a_run_that_was_interrupted_says_so(generated: Make, tmp_path: Path) -> None:
    press = lambda histories: signal.raise_signal(signal.SIGINT) if len(histories[0]) == 3 else None  # noqa: E731
    fl.run(generated(SIZES), TASK, ALGORITHM, rounds=8, directory=tmp_path, watch=press)
    with silent():
        run = fl.load(tmp_path)
    assert (run.finished, run.interrupted, run.stopped) == (False, True, "interrupted; it can be resumed")
    assert same(run.variables, after(2, generated))


def test_a_new_history_is_never_paired_with_an_old_model(generated: Make, tmp_path: Path) -> None:
    """A finished run goes on and is killed: its model.safetensors is still the old one."""
    fl.run(generated(SIZES), TASK, ALGORITHM, rounds=2, directory=tmp_path)
    old = (tmp_path / MODEL).read_bytes()
    fl.run(generated(SIZES), TASK, ALGORITHM, rounds=4, directory=tmp_path)
    (tmp_path / MODEL).write_bytes(old)
    said = f"{tmp_path / MODEL} is of round 2, the checkpoint of round 4: the checkpoint is read"
    with pytest.warns(FedloomWarning, match=said):
        run = fl.load(tmp_path)
    assert same(run.variables, after(4, generated))
    for name in (checkpoint.NAME, checkpoint.PREVIOUS):
        (tmp_path / name).unlink()
    with pytest.warns(FedloomWarning, match="is of round 2, history.json of round 4: the model is not read"):
        run = fl.load(tmp_path)
    assert (int(run.history.last("round")), run.variables) == (4, Variables({}, {}))


def test_killed_at_any_moment_and_with_any_files_lost_a_folder_is_consistent(
    generated: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every state that a kill can leave is copied: the folder before each of its files gets its name."""
    place, replace, moments = tmp_path / "run", Path.replace, list[Path]()

    def copied(self: Path, target: Path) -> Path:
        moments.append(shutil.copytree(place, tmp_path / f"{len(moments)}", ignore=shutil.ignore_patterns(".*")))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", copied)
    settings = Settings(fl.runs.Stop(rounds=3), ("test",), save_seconds=0.0)
    train(compiled(), generated(SIZES), TASK, [ALGORITHM], [0], settings, [place], ["mine"])
    monkeypatch.undo()
    models = [after(rounds, generated) for rounds in (1, 2, 3)]
    seen = set()
    for moment in (*moments, place):
        for gone in lost(moment):
            seen.add(checked_state(moment, gone, models))
    with_model = {"killed 1", "killed 2", "did 3"}
    assert seen == {"nothing"} | with_model | {f"{one}, no model" for one in with_model}


def lost(folder: Path) -> list[set[Path]]:
    """Nothing, each file, each pair and each three of a folder's files."""
    files = [path for path in folder.iterdir() if path.name in (checkpoint.NAME, checkpoint.PREVIOUS, HISTORY, MODEL)]
    return [set(some) for many in range(4) for some in combinations(files, many)]


def checked_state(folder: Path, gone: set[Path], models: list[Variables]) -> str:
    """Load a folder without some of its files, check that all belongs together, and say what there is."""
    kept = {path: path.read_bytes() for path in gone}
    for path in gone:
        path.unlink()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FedloomWarning)
            run = fl.load(folder)
    except CheckpointError as error:
        assert "holds no run" in str(error)
        return "nothing"
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    now, has_model = int(run.history.last("round")), bool(run.variables.params)
    assert not has_model or same(run.variables, models[now - 1])
    assert run.finished == (run.stopped == "did 3 rounds")
    assert run.interrupted == run.stopped.startswith("interrupted: it was killed")
    return f"{'did' if run.finished else 'killed'} {now}{'' if has_model else ', no model'}"


def test_copies_that_are_damaged_are_named_and_the_checkpoint_is_read(generated: Make, tmp_path: Path) -> None:
    run = fl.run(generated(SIZES), TASK, ALGORITHM, rounds=2, directory=tmp_path)
    for name in (HISTORY, MODEL):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole.replace(b'"round', b'"rOund', 1))
        with pytest.warns(FedloomWarning, match=f"{name} cannot be used: it is damaged.*the checkpoint, of round 2"):
            assert same(fl.load(tmp_path).variables, run.variables)
        (tmp_path / name).write_bytes(whole)


def test_damaged_checkpoints_are_named_and_the_copies_are_read(generated: Make, tmp_path: Path) -> None:
    run = fl.run(generated(SIZES), TASK, ALGORITHM, rounds=2, directory=tmp_path, label="mine")
    (tmp_path / checkpoint.PREVIOUS).unlink(missing_ok=True)
    (tmp_path / checkpoint.NAME).write_bytes(b"nothing")
    with pytest.warns(FedloomWarning, match="checkpoint.safetensors cannot be used.* are read instead"):
        loaded = fl.load(tmp_path)
    assert (loaded.label, loaded.history, loaded.finished) == ("mine", run.history, True)
    assert same(loaded.variables, run.variables)
    (tmp_path / HISTORY).write_text("{}")
    with pytest.warns(FedloomWarning), pytest.raises(CheckpointError, match=r"history\.json cannot be used: it is d"):
        fl.load(tmp_path)


def test_a_run_without_its_checkpoint_is_not_begun_anew(generated: Make, tmp_path: Path) -> None:
    fl.run(generated(SIZES), TASK, ALGORITHM, rounds=2, directory=tmp_path)
    (tmp_path / checkpoint.NAME).unlink()
    (tmp_path / checkpoint.PREVIOUS).unlink(missing_ok=True)
    with pytest.raises(CheckpointError, match=r"holds history\.json, but no checkpoint from which this run could go"):
        fl.run(generated(SIZES), TASK, ALGORITHM, rounds=2, directory=tmp_path)
    assert json.loads((tmp_path / HISTORY).read_text())["round"] == 2


def test_reading_a_result_imports_no_matplotlib(generated: Make, tmp_path: Path) -> None:
    fl.run(generated(SIZES), TASK, ALGORITHM, rounds=1, directory=tmp_path)
    script = """import sys, fedloom as fl
run = fl.load(sys.argv[1])
print(run.stopped, sorted(name for name in sys.modules if name.split(".")[0] == "matplotlib"))
"""
    told = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert told.stdout == "did 1 round []\n"
