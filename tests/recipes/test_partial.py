from dataclasses import replace
from pathlib import Path

import pytest

from fedloom.errors import CheckpointError
from fedloom.recipes.cell import Trial
from fedloom.recipes.partial import OF, TRIALS, Partial, claim, clear, place, unfinished
from fedloom.runs.checkpoint import write_text

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
    for content in (b"[true, {}, 1.0]\n", b"\xff\xfe", b'[true, {"lr": 0.1, "curve": []}, 1.0]\n', b"[1]\n"):
        (tmp_path / TRIALS).write_bytes(content)
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


def test_of_a_cell_under_way_the_device_counts_that_is_furthest(tmp_path: Path) -> None:
    write_text(place(tmp_path, "cell", "float32", "C") / TRIALS, "")
    claim(place(tmp_path, "cell", "float32", "C"), {})
    assert unfinished("cell", tmp_path) is None  # where it has just begun
    whole, other = replace(TRIAL, ended="did 9 rounds"), replace(TRIAL, seed=1)
    for device, trials in (("A", [TRIAL]), ("B", [whole, other])):
        partial = Partial(place(tmp_path, "cell", "float32", device), {"device": device})
        partial.add(trials, raced=False, seconds=2.0)
        partial.add([TRIAL], raced=True, seconds=3.0)
    Partial(place(tmp_path, "cell-unit", "float32", "A"), {"device": "A"}).add([TRIAL], raced=False, seconds=1.0)
    found = unfinished("cell", tmp_path)
    assert found is not None
    assert set(found.trials) == {whole, other}  # which ran to the end, not the race
    assert found.about == {"device": "B", "seconds": 5.0}


def test_a_note_of_what_is_under_way_that_is_damaged_is_told_of(tmp_path: Path) -> None:
    folder = place(tmp_path, "cell", "float32", "A")
    Partial(folder, {"device": "A"}).add([TRIAL], raced=True, seconds=1.0)
    (folder / OF).write_text("{")
    with pytest.raises(CheckpointError, match=r"of\.json is damaged .*: delete it"):
        unfinished("cell", tmp_path)


def test_a_place_is_removed_with_what_it_is_in_unless_others_are_there(tmp_path: Path) -> None:
    first, second = (place(tmp_path, "cell", "float32", device) for device in ("A", "B"))
    claim(first, {})
    claim(second, {})
    clear(first)
    assert second.is_dir()
    clear(second)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_of_one_experiment(tmp_path: Path) -> None:
    claim(tmp_path, {"rounds": 5})
    claim(tmp_path, {"rounds": 5})
    with pytest.raises(
        CheckpointError, match=r'is of another experiment or device .*"rounds": 5.* not of .*"rounds": 6'
    ):
        claim(tmp_path, {"rounds": 6})
