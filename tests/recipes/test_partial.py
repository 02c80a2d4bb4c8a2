from pathlib import Path

import pytest

from fedloom.errors import CheckpointError
from fedloom.recipes.cell import Trial
from fedloom.recipes.partial import TRIALS, Partial, claim

TRIAL = Trial(0.1, 1.0, 0, "did 3 rounds", ((0, 0.1), (3, 0.5)))


def test_trials_come_back_and_races_are_told_from_runs_to_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "a.partial"
    Partial(folder).add([TRIAL], raced=True, seconds=1.0)
    assert Partial(folder).find((0.1, 1.0, 0), raced=True) == TRIAL
    assert Partial(folder).find((0.1, 1.0, 0), raced=False) is None
    assert Partial(folder).find((0.2, 1.0, 0), raced=True) is None
    Partial(folder).remove()
    assert not folder.exists()


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    Partial(tmp_path).add([TRIAL], raced=True, seconds=1.0)
    file = tmp_path / TRIALS
    file.write_text(file.read_text() + '[false, {"lr": 0.')
    assert list(Partial(tmp_path).trials) == [((0.1, 1.0, 0), True)]
    Partial(tmp_path).add([TRIAL], raced=False, seconds=1.0)
    assert list(Partial(tmp_path).trials) == [((0.1, 1.0, 0), True), ((0.1, 1.0, 0), False)]


def test_a_file_of_another_kind_is_told_of(tmp_path: Path) -> None:
    (tmp_path / TRIALS).write_text("[true, {}, 1.0]\n")
    with pytest.raises(CheckpointError, match=r"trials\.jsonl is damaged"):
        Partial(tmp_path)


def test_trials_of_another_experiment_are_not_mixed_in(tmp_path: Path) -> None:
    Partial(tmp_path, {"experiment": {"rounds": 5}}).add([TRIAL], raced=True, seconds=1.0)
    assert len(Partial(tmp_path, {"experiment": {"rounds": 5}}).trials) == 1
    with pytest.raises(CheckpointError, match=r'another experiment or device .*"rounds": 5.* not of .*"rounds": 6'):
        Partial(tmp_path, {"experiment": {"rounds": 6}})


def test_the_seconds_of_all_that_ran_are_added_up(tmp_path: Path) -> None:
    Partial(tmp_path).add([TRIAL, TRIAL], raced=True, seconds=4.0)
    again = Partial(tmp_path)
    assert again.seconds == 4
    again.add([TRIAL], raced=False, seconds=3.0)
    assert again.seconds == Partial(tmp_path).seconds == 7


def test_nothing_is_kept_without_a_folder() -> None:
    partial = Partial()
    partial.add([TRIAL], raced=False, seconds=1.0)
    assert partial.find((0.1, 1.0, 0), raced=False) == TRIAL
    partial.remove()


def test_a_folder_is_of_one_experiment(tmp_path: Path) -> None:
    claim(tmp_path, {"rounds": 5})
    claim(tmp_path, {"rounds": 5})
    with pytest.raises(
        CheckpointError, match=r'is of another experiment or device .*"rounds": 5.* not of .*"rounds": 6'
    ):
        claim(tmp_path, {"rounds": 6})
