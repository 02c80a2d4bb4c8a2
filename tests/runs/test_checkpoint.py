from pathlib import Path

import numpy as np
import pytest

from fedloom.errors import CheckpointError
from fedloom.runs.checkpoint import NAME, PREVIOUS, Checkpoint, read, write


def saved(folder: Path, *numbers: float) -> None:
    for number in numbers:
        write(folder, Checkpoint({"w": np.full(1000, number, np.float32)}, {"n": number}))


def test_the_newest_is_read_and_the_one_before_is_kept(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2, 3)
    found, troubles = read(tmp_path)
    assert found is not None
    assert (found.about, troubles) == ({"n": 3}, [])
    assert found.arrays["w"].tolist() == [3] * 1000
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([NAME, PREVIOUS])


def test_no_checkpoint_yet(tmp_path: Path) -> None:
    assert read(tmp_path) == (None, [])


@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_a_truncated_one_is_reported_and_the_previous_used(tmp_path: Path, keep: int) -> None:
    saved(tmp_path, 1, 2)
    raw = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(raw[:keep])
    found, troubles = read(tmp_path)
    assert found is not None
    assert found.about == {"n": 1}
    assert "truncated or damaged" in troubles[0]


def test_any_flipped_byte_is_found(tmp_path: Path) -> None:
    write(tmp_path, Checkpoint({}, {"n": 1}))
    write(tmp_path, Checkpoint({"w": np.array([2.0], np.float32)}, {"n": 2, "text": "é"}))
    whole = (tmp_path / NAME).read_bytes()
    for i in range(len(whole)):
        (tmp_path / NAME).write_bytes(whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :])
        found, troubles = read(tmp_path)
        assert found is not None
        assert (found.about, len(troubles)) == ({"n": 1}, 1), i
        assert troubles[0].startswith(f"{tmp_path / NAME} cannot be used: it is "), i


def test_a_crash_between_the_two_renames_loses_nothing(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    (tmp_path / NAME).replace(tmp_path / PREVIOUS)
    found, _ = read(tmp_path)
    assert found is not None
    assert found.about == {"n": 2}


def test_nothing_readable_is_an_error(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    for name in (NAME, PREVIOUS):
        (tmp_path / name).write_bytes(b"not a checkpoint")
    with pytest.raises(CheckpointError, match="start the run again in another folder"):
        read(tmp_path)
