"""Nobody works in a folder in which somebody works."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

import fedloom as fl
from fedloom.data import FederatedData
from fedloom.errors import CheckpointError
from fedloom.runs.lock import alone, is_held


def test_only_one_is_inside(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "run"

    def enter() -> None:
        with alone(folder, "server"):
            pass

    assert not is_held(folder)
    with ThreadPoolExecutor(1) as pool, alone(folder):
        assert is_held(folder)
        with alone(folder):  # oneself may
            assert is_held(folder)
        with pytest.raises(CheckpointError, match=r"another server works in .*run: wait until it is over"):
            pool.submit(enter).result()
    assert not is_held(folder)
    with pytest.raises(ZeroDivisionError), alone(folder):
        raise ZeroDivisionError
    enter()  # nobody is left inside by an error


def test_two_runs_in_one_folder_are_one_too_many(generated: Callable[..., FederatedData], tmp_path: Path) -> None:
    data, task, work = generated([8, 8], features=5, classes=2), fl.tasks.logistic(5, 2), fl.fedavg(fraction=1.0)
    begun, go_on = Event(), Event()

    def watch(_: object) -> None:
        begun.set()
        go_on.wait(30)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(fl.run, data, task, work, rounds=2, evaluate="train", directory=tmp_path, watch=watch)
        begun.wait(30)
        with pytest.raises(CheckpointError, match="another run works in"):
            fl.run(data, task, work, rounds=2, evaluate="train", directory=tmp_path)
        go_on.set()
        whole = first.result()
    assert fl.run(data, task, work, rounds=2, evaluate="train", directory=tmp_path).history == whole.history
