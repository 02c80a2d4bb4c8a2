"""Resumption: a run in a folder goes on as it was begun, or not at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedloom as fl
from fedloom.data import FederatedData
from fedloom.errors import ArgumentError, CheckpointError

Make = Callable[..., FederatedData]
TASK = fl.tasks.logistic(inputs=4, classes=3)
BEGUN = {"rounds": 4, "every": 2, "evaluate": ("train", "test"), "label": "mine"}
CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"label": "ours"}, "label = 'mine' there, 'ours' here"),
    ({"every": 1}, "every = 2 there, 1 here"),
    ({"evaluate": "test"}, "evaluate = 'test,train' there, 'test' here"),
    ({"users": True}, "users = False there, True here"),
]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_what_the_folder_holds_cannot_change(generated: Make, tmp_path: Path, change: Any, said: str) -> None:
    data = generated([5, 12])
    fl.run(data, TASK, fl.fedavg(), directory=tmp_path, **BEGUN)
    before = contents(tmp_path)
    text = rf"holds 'mine' at round 4, with other settings \({said}\): go on with those, or choose another folder"
    with pytest.raises(CheckpointError, match=text):
        fl.run(data, TASK, fl.fedavg(), directory=tmp_path, **{**BEGUN, "rounds": 8, **change})
    assert contents(tmp_path) == before


def test_fewer_rounds_than_are_done_are_refused_and_as_many_are_not(generated: Make, tmp_path: Path) -> None:
    data = generated([5, 12])
    fl.run(data, TASK, fl.fedavg(), directory=tmp_path, **BEGUN)
    with pytest.raises(ArgumentError, match=r"rounds must be at least 4, which are done already in .*, but is 3"):
        fl.run(data, TASK, fl.fedavg(), directory=tmp_path, **{**BEGUN, "rounds": 3})
    again = fl.run(data, TASK, fl.fedavg(), directory=tmp_path, **{**BEGUN, "evaluate": "test,train"})
    assert again.stopped == "did 4 rounds"


def test_rules_for_stopping_may_change(generated: Make, tmp_path: Path) -> None:
    data = generated([5, 12])
    fl.run(data, TASK, fl.fedavg(), directory=tmp_path, **BEGUN)
    on = fl.run(
        data, TASK, fl.fedavg(), directory=tmp_path, target=0.0, patience=3, keep="last", **{**BEGUN, "rounds": 9}
    )
    assert (on.stopped, on.history.last("round")) == ("test accuracy reached 0", 4)


def test_a_sweep_is_refused_before_any_member_runs(generated: Make, tmp_path: Path) -> None:
    data, lr = generated([5, 12]), [0.1, 0.2]
    fl.sweep(data, TASK, fl.fedavg(), lr=lr, rounds=3, directory=tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ArgumentError, match=r"rounds must be at least 3, which are done already in .*lr=0\.1,seed=0"):
        fl.sweep(data, TASK, fl.fedavg(), lr=[0.3, *lr], rounds=2, directory=tmp_path)
    with pytest.raises(CheckpointError, match=r"\(every = 1 there, 3 here\)"):
        fl.sweep(data, TASK, fl.fedavg(), lr=[0.3, *lr], rounds=6, every=3, directory=tmp_path)
    assert contents(tmp_path) == before
