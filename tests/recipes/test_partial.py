from pathlib import Path

import pytest

from fedloom.errors import CheckpointError
from fedloom.recipes.cell import Trial
from fedloom.recipes.partial import Partial

TRIAL = Trial(0.1, 1.0, 0, "did 3 rounds", ((0, 0.1), (3, 0.5)))


def test_trials_come_back_and_races_are_told_from_runs_to_the_end(tmp_path: Path) -> None:
    file = tmp_path / "new" / "a.partial"
    Partial(file).add([TRIAL], raced=True)
    assert Partial(file).find((0.1, 1.0, 0), raced=True) == TRIAL
    assert Partial(file).find((0.1, 1.0, 0), raced=False) is None
    assert Partial(file).find((0.2, 1.0, 0), raced=True) is None


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "a.partial"
    Partial(file).add([TRIAL], raced=True)
    file.write_text(file.read_text() + '[false, {"lr": 0.')
    assert list(Partial(file).trials) == [((0.1, 1.0, 0), True)]
    Partial(file).add([TRIAL], raced=False)
    assert list(Partial(file).trials) == [((0.1, 1.0, 0), True), ((0.1, 1.0, 0), False)]


def test_a_file_of_another_kind_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "a.partial").write_text("{}\n[true, {}]\n")
    with pytest.raises(CheckpointError, match=r"a\.partial is damaged"):
        Partial(tmp_path / "a.partial")


def test_trials_of_another_experiment_are_not_mixed_in(tmp_path: Path) -> None:
    file = tmp_path / "a.partial"
    Partial(file, {"experiment": {"rounds": 5}}).add([TRIAL], raced=True)
    assert len(Partial(file, {"experiment": {"rounds": 5}}).trials) == 1
    with pytest.raises(CheckpointError, match=r'another experiment or device .*"rounds": 5.* not of .*"rounds": 6'):
        Partial(file, {"experiment": {"rounds": 6}})


def test_the_seconds_of_all_that_ran_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 14.0, 100.0, 103.0])
    monkeypatch.setattr("fedloom.recipes.partial.time.perf_counter", lambda: next(clock))
    Partial(tmp_path / "a.partial").add([TRIAL, TRIAL], raced=True)
    again = Partial(tmp_path / "a.partial")
    assert again.seconds == pytest.approx(4 + 3)


def test_nothing_is_kept_without_a_file() -> None:
    partial = Partial()
    partial.add([TRIAL], raced=False)
    assert partial.find((0.1, 1.0, 0), raced=False) == TRIAL
