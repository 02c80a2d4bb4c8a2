"""Recovery: what a server does when its folder lacks something. It deletes nothing."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from federation.test_coordinator import Desk
from weather import tiny

from fedloom.errors import ArgumentError, CheckpointError, FedloomWarning
from fedloom.federation.coordinator import Coordinator
from fedloom.federation.course import Course
from fedloom.federation.disk import Disk, digest
from fedloom.federation.journal import Journal
from fedloom.federation.outbox import Outbox, Trained, parcel
from fedloom.federation.recovery import FILES, JOURNAL, check_journal_is_there, put_aside
from fedloom.federation.rules import Rules
from fedloom.federation.wire_pb2 import Verdict, Work
from fedloom.runs.stopping import Stop


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """The folder of a server that has done a round."""
    desk = Desk(rounds=3)
    desk.connection.close()
    journal, desk.disk = Journal(tmp_path / JOURNAL), Disk(tmp_path / FILES)
    course = Course(tiny(1.0), Rules(begin=2, pause=0.0), Stop(3), lambda _: {}, "{}", {})
    desk.c = Coordinator(course, journal, desk.disk, lambda: desk.now, "run")
    desk.come("a", "b")
    desk.tick()
    for name in ("a", "b"):
        desk.send(name)
    desk.tick()
    assert desk.c.round == 1
    journal.close()
    return tmp_path


def begin(folder: Path, rounds: int = 3) -> Coordinator:
    """Begin the server again, as ``hosted`` does."""
    check_journal_is_there(folder)
    course = Course(tiny(1.0), Rules(begin=2, pause=0.0), Stop(rounds), lambda _: {}, "{}", {})
    journal = Journal(folder / JOURNAL)
    try:
        return Coordinator(course, journal, Disk(folder / FILES), lambda: 2000.0, "other")
    finally:
        journal.close()


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / FILES).iterdir()}


def test_a_folder_goes_on(served: Path) -> None:
    assert (begin(served).run, begin(served).round) == ("run", 1)


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_a_folder_without_its_journal_is_refused_and_nothing_is_deleted(served: Path, how: str) -> None:
    before = files(served)
    (served / JOURNAL).unlink()
    if how == "empty":
        (served / JOURNAL).touch()
    text = f"holds the states of a run, but its {JOURNAL} is {how}: restore the journal, or say --new-run, which"
    with pytest.raises(CheckpointError, match=text):
        begin(served)
    assert files(served) == before
    assert (served / JOURNAL).exists() == (how == "empty")


def test_a_journal_in_which_no_run_has_begun_is_refused_beside_states(served: Path) -> None:
    before = files(served)
    (served / JOURNAL).unlink()
    Journal(served / JOURNAL).close()
    with pytest.raises(CheckpointError, match="holds the states of a run, of which the journal knows nothing: restore"):
        begin(served)
    assert files(served).items() >= before.items()


def test_a_truncated_journal_is_refused(served: Path) -> None:
    before, content = files(served), (served / JOURNAL).read_bytes()
    (served / JOURNAL).write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match=r"is damaged .*restore it from a copy, or say --new-run"):
        begin(served)
    assert files(served) == before


def test_a_crash_before_the_run_began_is_no_lost_journal(tmp_path: Path) -> None:
    """Only the files that a run begins with are there: they were written before the journal speaks of them."""
    begin(tmp_path)
    (tmp_path / JOURNAL).unlink()
    Journal(tmp_path / JOURNAL).close()
    assert begin(tmp_path).round == 0


def test_a_new_run_keeps_the_old_files(served: Path) -> None:
    before = files(served)
    (served / JOURNAL).unlink()
    with pytest.warns(FedloomWarning, match="the files of the run before are in .*before-1"):
        put_aside(served)
    assert files(served / "before-1") == before
    assert (begin(served).run, begin(served).round) == ("other", 0)


def test_a_run_that_can_go_on_is_not_put_aside(served: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"--new-run must be left out: .* holds a run that can go on"):
        put_aside(served)
    put_aside(tmp_path / "new")  # where nothing is, there is nothing to keep


def test_a_missing_or_damaged_state_is_named(served: Path) -> None:
    c = begin(served)
    state = served / FILES / c.state_file
    whole = state.read_bytes()
    for i in range(len(whole)):
        state.write_bytes(whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :])
        with pytest.raises(CheckpointError, match=f"{c.state_file} is damaged: its SHA-256 is not its name"):
            begin(served)
    state.unlink()
    with pytest.raises(CheckpointError, match=f"{c.state_file} is missing: restore it from a copy"):
        begin(served)
    with pytest.warns(FedloomWarning):
        put_aside(served)  # it cannot go on


def test_a_damaged_model_for_participants_is_written_again(served: Path) -> None:
    model = served / FILES / begin(served).model_file
    whole = model.read_bytes()
    model.write_bytes(whole[:-1] + b"x")
    with pytest.warns(FedloomWarning, match="was missing or damaged: it is written again"):
        begin(served)
    assert model.read_bytes() == whole


def test_a_damaged_update_is_asked_for_again() -> None:
    desk = Desk()
    desk.come("a", "b")
    desk.tick()
    assert desk.send("a", 2.0) == Verdict.COUNTED
    [file] = [update.file for update in desk.c.received.values()]
    whole, desk.disk.files[file] = desk.disk.files[file], b"x"  # type: ignore[attr-defined]
    with pytest.warns(FedloomWarning, match="an update of a, is missing or damaged: a is asked again"):
        desk.begin()
    assert desk.c.received == {}
    desk.come("a", "b")
    assert "work" in desk.kinds("a")[-1:]
    assert desk.send("a", 2.0) == Verdict.COUNTED
    assert desk.disk.files[file] == whole  # type: ignore[attr-defined]


def test_fewer_rounds_than_are_done_are_refused(served: Path) -> None:
    assert begin(served, rounds=1).stopped == "did 1 round"
    desk = Desk(rounds=2)
    desk.come("a", "b")
    for _ in range(2):
        desk.tick()
        desk.send("a")
        desk.send("b")
    desk.tick()
    desk.rounds = 1
    with pytest.raises(ArgumentError, match="rounds must be at least 2, which are done already"):
        desk.begin()


WORK = Work(round=3, attempt=0, model="m", size=1, seconds=1.0, counted=2)
MADE = parcel(Trained({"w": np.ones(2)}, 5, {}, {}, {"c": np.full(2, 7.0)}))


def test_a_damaged_update_of_a_participant_is_trained_again(tmp_path: Path) -> None:
    outbox = Outbox(Disk(tmp_path))
    pending = outbox.remember("run", WORK, MADE)
    assert outbox.ready("run", WORK) == pending
    (tmp_path / pending.file).write_bytes(b"x")
    with pytest.warns(FedloomWarning, match="is missing or damaged: its round is trained again"):
        assert outbox.ready("run", WORK) is None
    outbox.remember("run", WORK, MADE)
    whole = (tmp_path / "pending.json").read_bytes()
    for i in range(len(whole)):
        (tmp_path / "pending.json").write_bytes(whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :])
        with pytest.warns(FedloomWarning, match=r"pending\.json cannot be used: it is damaged"):
            assert outbox.pending() is None


def test_what_a_participant_keeps_is_checked(tmp_path: Path) -> None:
    outbox = Outbox(Disk(tmp_path))
    pending = outbox.remember("run", WORK, MADE)
    outbox.settle("run", 3, None)
    assert outbox.kept("run", 3)["c"].tolist() == [7, 7]
    with pytest.raises(CheckpointError, match="keeps what belongs to round 4, but the server last counted round 6"):
        outbox.kept("run", 5)
    assert pending.keeps == digest(MADE.keeps or b"")
    (tmp_path / str(pending.keeps)).write_bytes(b"x")
    with pytest.raises(CheckpointError, match="is damaged: its SHA-256 is not its name"):
        outbox.kept("run", 3)
    whole = (tmp_path / "kept.json").read_bytes()
    for i in range(len(whole)):
        (tmp_path / "kept.json").write_bytes(whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :])
        with pytest.raises(CheckpointError, match=r"kept\.json cannot be used: it is damaged"):
            outbox.kept("run", 3)


def test_work_that_began_without_what_was_kept_is_not_sent(tmp_path: Path) -> None:
    outbox = Outbox(Disk(tmp_path))
    with pytest.raises(CheckpointError, match=r"lacks kept\.json, what was kept of round 3, which the server counted"):
        outbox.check_kept(MADE, outbox.kept("run", 2), 2)
    outbox.check_kept(MADE, {}, -1)  # its first round
    outbox.check_kept(replace(MADE, keeps=None, held=None), {}, 2)  # it keeps nothing


def test_the_test_data_and_the_label_make_a_run(served: Path) -> None:
    shutil.rmtree(served / FILES)
    desk = Desk(label="mine")
    desk.identity = {"label": "ours"}
    with pytest.raises(CheckpointError, match=r"holds another run \(label = 'mine' there, 'ours' here\)"):
        desk.begin()
