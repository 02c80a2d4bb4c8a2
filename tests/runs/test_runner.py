"""Runs: recorded, stopped, saved, and resumed with the same numbers."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from forty_rounds import forty_rounds
from hurry import hurried

import fedloom as fl
import fedloom.runs.ongoing as ongoing
from fedloom.algorithms import ClientStates, RoundState
from fedloom.data import FederatedData
from fedloom.engines import Program, compiled
from fedloom.errors import ArgumentError, CheckpointError, DivergedError, UnknownName
from fedloom.runs import checkpoint
from fedloom.runs.restore import evened, standing
from fedloom.runs.runner import train
from fedloom.runs.settings import Settings
from fedloom.runs.stopping import Stop
from fedloom.tasks import Variables
from fedloom.trees import flatten

Make = Callable[..., FederatedData]
TASK = fl.tasks.logistic(inputs=4, classes=3)
ALGORITHM = fl.fedavg(fraction=0.5, server=fl.server("momentum", lr=0.5))
SIZES = [5, 12, 30, 8]
SCRIPT = Path(__file__).parents[1] / "forty_rounds.py"


def same(a: object, b: object) -> None:
    x, y = flatten(a), flatten(b)
    assert x.keys() == y.keys()
    for name in x:
        np.testing.assert_array_equal(x[name], y[name])


def test_a_run_records_what_it_measured_and_what_it_cost(generated: Make) -> None:
    data = generated(SIZES)
    run = fl.run(data, TASK, ALGORITHM, rounds=4, every=2)
    assert run.history.column("round").tolist() == [0, 2, 4]
    assert run.stopped == "did 4 rounds"
    numbers = 4 * 3 + 3  # weights and biases
    assert run.history.column("bytes_up").tolist() == [0, 2 * 2 * numbers * 4, 4 * 2 * numbers * 4]
    program = fl.engines.compiled().program(data, TASK, [ALGORITHM], [0])
    assert run.history.last("steps") == program.steps(program.cohorts(0, 4)).sum()
    for name in ("train_accuracy", "test_loss", "seconds", "update_norm"):
        assert name in run.history.columns
    assert run.history.last("test_loss") < run.history.column("test_loss")[0]
    assert (np.diff(run.history.column("seconds")) > 0).all()


def test_the_same_seed_gives_the_same_run_and_another_another(generated: Make) -> None:
    runs = [fl.run(generated(SIZES), TASK, ALGORITHM, rounds=3, seed=s).variables for s in (1, 1, 2)]
    same(runs[0], runs[1])
    with pytest.raises(AssertionError):
        same(runs[0], runs[2])


def test_evaluating_more_often_does_not_change_the_run(generated: Make) -> None:
    a = fl.run(generated(SIZES), TASK, ALGORITHM, rounds=6, every=1)
    b = fl.run(generated(SIZES), TASK, ALGORITHM, rounds=6, every=4)
    assert b.history.column("round").tolist() == [0, 4, 6]
    same(a.variables, b.variables)


def test_a_target_stops_at_its_round(generated: Make) -> None:
    full = fl.run(generated(SIZES), TASK, ALGORITHM, rounds=10)
    target = sorted(full.history.column("test_accuracy"))[-2]
    run = fl.run(generated(SIZES), TASK, ALGORITHM, rounds=10, target=target)
    assert run.history.last("round") == full.history.reached("test_accuracy", target)


def test_resumed_is_left_alone_bit_for_bit(generated: Make, tmp_path: Path) -> None:
    data = generated(SIZES)
    alone = fl.run(data, TASK, ALGORITHM, rounds=9, directory=tmp_path / "alone")
    for rounds in (2, 3, 7, 9):
        resumed = fl.run(data, TASK, ALGORITHM, rounds=rounds, directory=tmp_path / "resumed")
    same(alone.variables, resumed.variables)
    ends = [checkpoint.read(tmp_path / name)[0] for name in ("alone", "resumed")]
    same(*(end.arrays for end in ends if end))
    measured = [[{k: v for k, v in row.items() if k != "seconds"} for row in r.history.rows] for r in (alone, resumed)]
    assert measured[0] == measured[1]


def test_a_finished_run_is_not_run_again(generated: Make, tmp_path: Path) -> None:
    data = generated(SIZES)
    first = fl.run(data, TASK, ALGORITHM, rounds=3, directory=tmp_path)
    seen: list[int] = []
    again = fl.run(data, TASK, ALGORITHM, rounds=3, directory=tmp_path, watch=lambda h: seen.append(len(h[0])))
    assert seen == []
    assert again.history == first.history


def test_another_run_in_the_folder_is_refused(generated: Make, tmp_path: Path) -> None:
    fl.run(generated(SIZES), TASK, ALGORITHM, rounds=2, directory=tmp_path)
    with pytest.raises(CheckpointError, match=r"holds another run \(lr = 0.1 there, 0.2 here\)"):
        fl.run(generated(SIZES), TASK, fl.fedavg(fraction=0.5, lr=0.2, server=ALGORITHM.server), directory=tmp_path)
    with pytest.raises(CheckpointError, match=r"holds another run \(data = "):
        fl.run(generated([5, 12, 30, 9]), TASK, ALGORITHM, directory=tmp_path)


def test_a_damaged_checkpoint_warns_and_the_previous_goes_on_to_the_same_end(generated: Make, tmp_path: Path) -> None:
    data = generated(SIZES)
    alone = fl.run(data, TASK, ALGORITHM, rounds=6)
    for rounds in (2, 4):
        fl.run(data, TASK, ALGORITHM, rounds=rounds, directory=tmp_path)
    newest = tmp_path / checkpoint.NAME
    newest.write_bytes(newest.read_bytes()[:-10])
    with pytest.warns(UserWarning, match="cannot be used: it is truncated or damaged.*going on from the previous one"):
        resumed = fl.run(data, TASK, ALGORITHM, rounds=6, directory=tmp_path)
    same(alone.variables, resumed.variables)


def test_divergence_names_round_and_rate_and_keeps_the_last_good_state(generated: Make, tmp_path: Path) -> None:
    data = generated(SIZES)
    wild = fl.fedavg(fraction=0.5, lr=1e25, decay=1.0)
    with pytest.raises(DivergedError, match=r"after round \d+ with learning rate 1e\+25.*last good checkpoint is in"):
        fl.run(data, TASK, wild, rounds=50, directory=tmp_path)
    kept, _ = checkpoint.read(tmp_path)
    assert kept is not None
    assert all(np.isfinite(a).all() for a in kept.arrays.values())
    assert all(np.isfinite(list(row.values())).all() for row in kept.about["rows"])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_finishes_the_chunk_and_can_be_resumed(how: signal.Signals, generated: Make, tmp_path: Path) -> None:
    data = generated(SIZES)

    def press(histories: object) -> None:
        if len(histories[0]) == 4:  # type: ignore[index]
            os.kill(os.getpid(), how)

    run = fl.run(data, TASK, ALGORITHM, rounds=8, directory=tmp_path, watch=press)
    assert run.stopped.startswith("interrupted")
    assert run.history.last("round") == 3
    same(
        fl.run(data, TASK, ALGORITHM, rounds=8, directory=tmp_path).variables,
        fl.run(data, TASK, ALGORITHM, rounds=8).variables,
    )


def test_the_first_rounds_are_saved_at_once(generated: Make, tmp_path: Path) -> None:
    def press(histories: object) -> None:
        if len(histories[0]) == 3:  # type: ignore[index]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fl.run(generated(SIZES), TASK, ALGORITHM, rounds=8, directory=tmp_path, watch=press)
    assert standing(tmp_path).round == 1  # type: ignore[union-attr]


def test_when_the_time_is_over_a_run_can_be_resumed(generated: Make, tmp_path: Path) -> None:
    data, stop = generated(SIZES), Stop(8)
    late = lambda until: train(compiled(), data, TASK, [ALGORITHM], [0], Settings(stop, ("test",), until=until),  # noqa: E731
                               [tmp_path], ["late"])[0]  # fmt: skip
    stopped = late(0.0)
    assert (stopped.stopped, stopped.history.last("round")) == ("interrupted; it can be resumed", 0)
    assert standing(tmp_path).status == "interrupted"  # type: ignore[union-attr]
    same(late(float("inf")).variables, fl.run(data, TASK, ALGORITHM, rounds=8).variables)
    assert standing(tmp_path).stopped == "did 8 rounds"  # type: ignore[union-attr]


def test_runs_work_in_other_threads(generated: Make) -> None:
    done: list[fl.Run] = []
    thread = threading.Thread(target=lambda: done.append(fl.run(generated(SIZES), TASK, ALGORITHM, rounds=2)))
    thread.start()
    thread.join()
    assert done[0].history.last("round") == 2


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_killed_with_kill_9_and_resumed_is_left_alone(tmp_path: Path) -> None:
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    forty_rounds(alone)
    newest = killed / checkpoint.NAME
    for after in (0.0, 0.13):
        before = newest.stat().st_mtime_ns if newest.exists() else None
        process = subprocess.Popen([sys.executable, str(SCRIPT), str(killed)], env=hurried())
        deadline = time.time() + 60
        while (not newest.exists() or newest.stat().st_mtime_ns == before) and time.time() < deadline:
            time.sleep(0.005)
        time.sleep(after)
        process.kill()
        process.wait()
        run = fl.load(killed)
        assert (run.finished, run.interrupted) == (False, True)
        assert (
            run.stopped
            == f"interrupted: it was killed; round {int(run.history.last('round'))} was the last to be saved"
        )
    forty_rounds(killed)
    ends = [checkpoint.read(folder)[0] for folder in (alone, killed)]
    same(*(end.arrays for end in ends if end))


def test_what_is_kept_can_be_loaded(generated: Make, tmp_path: Path) -> None:
    run = fl.run(generated(SIZES), TASK, ALGORITHM, rounds=2, directory=tmp_path, label="mine")
    loaded = fl.load(tmp_path)
    assert (loaded.label, loaded.history) == ("mine", run.history)
    same(loaded.variables, run.variables)
    assert json.loads((tmp_path / "history.json").read_text())["rows"][-1]["round"] == 2


def test_loading_nothing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no run"):
        fl.load(tmp_path)


def test_an_unknown_part_of_the_data(generated: Make) -> None:
    with pytest.raises(UnknownName, match="evaluate must be one of test, train, but is 'validation'"):
        fl.run(generated(SIZES), TASK, ALGORITHM, evaluate=["validation"])


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Settings(fl.runs.Stop(), ()).every = 2  # type: ignore[misc]
    assert jax.default_backend()


def test_a_run_draws_itself_and_saves_its_model(generated: Make, tmp_path: Path) -> None:
    run = fl.run(generated(SIZES), TASK, ALGORITHM, rounds=2)
    figure = run.plot("loss", against="bytes", file=tmp_path / "loss.png")
    assert figure.axes[0].get_ylabel() == "loss"
    assert (tmp_path / "loss.png").exists()
    run.save(tmp_path / "model.safetensors")
    same(fl.runs.model.load(tmp_path / "model.safetensors"), run.variables)


def test_the_part_that_is_monitored_is_evaluated_in_any_case(generated: Make) -> None:
    run = fl.run(generated(SIZES), TASK, ALGORITHM, target=0.0, evaluate=["train"])
    assert run.stopped == "test accuracy reached 0" and "test_loss" in run.history.columns
    with pytest.raises(ArgumentError, match="monitor must be a part of the data and a measure, such as validation_acc"):
        fl.run(generated(SIZES), TASK, ALGORITHM, target=0.9, monitor="validation_accuracy")


def test_what_a_target_looks_at_is_measured(generated: Make) -> None:
    x, y = np.eye(4), np.arange(4.0)
    arrays = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}
    numbers = fl.data.from_arrays("n", arrays, numbers=True)
    data = numbers.partition(fl.partition.iid(2))
    start = {"w": np.zeros(4, np.float32)}
    task = fl.tasks.from_function(lambda _: start, lambda p, x: x @ p["w"], "squared_error")
    with pytest.raises(UnknownName, match="monitor must be one of test_error, test_loss, but is 'test_accuracy'"):
        fl.run(data, task, ALGORITHM, target=0.5, monitor="test_accuracy", evaluate="test")
    algorithm = fl.fedavg(fraction=1.0, lr=0.2)
    run = fl.run(data, task, algorithm, rounds=200, target=0.5, monitor="test_error", evaluate="test")
    assert run.stopped == "test error reached 0.5"
    assert run.history.best("test_error") == min(run.history.column("test_error")) <= 0.5
    assert run.plot().axes[0].get_ylabel() == "loss"
    with pytest.raises(ArgumentError, match=r"target must be between 0 and 1, such as 0\.97, but is 97"):
        fl.run(generated(SIZES), TASK, ALGORITHM, target=97)


def test_whenever_a_run_goes_on_it_is_evaluated_in_the_same_rounds(generated: Make, tmp_path: Path) -> None:
    data = generated(SIZES)
    for rounds in (6, 14):
        run = fl.run(data, TASK, ALGORITHM, rounds=rounds, every=4, directory=tmp_path)
    alone = fl.run(data, TASK, ALGORITHM, rounds=14, every=4)
    assert run.history.column("round").tolist() == [0, 4, 6, 8, 12, 14]
    assert alone.history.column("round").tolist() == [0, 4, 8, 12, 14]
    common = [row["test_loss"] for row in run.history.rows if row["round"] != 6]
    assert common == alone.history.column("test_loss").tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 2.5}, "rounds must be a whole number, but is 2.5"),
        ({"every": 2.5}, "every must be a whole number, but is 2.5"),
        ({"seed": "a"}, "seed must be a whole number, but is 'a'"),
        ({"seconds": 0}, "seconds must be above 0, but is 0"),
        ({"evaluate": "test,nonsense"}, "evaluate must be one of test, train, but is 'nonsense'"),
    ],
)
def test_bad_numbers(generated: Make, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        fl.run(generated(SIZES), TASK, ALGORITHM, **options)


def test_things_of_another_kind(generated: Make) -> None:
    data = generated(SIZES)
    dataset = fl.data.from_arrays("toy", {"x": np.zeros((3, 2)), "y": np.arange(3)})
    for things, message in (
        ((dataset, TASK, ALGORITHM), "data must be data that is dealt to clients"),
        ((data, "2nn", ALGORITHM), r"task must be a task, such as fl.tasks.two_nn\(\), but is '2nn'"),
        ((data, fl.tasks.two_nn, ALGORITHM), "task must be a task, .*, but is 'two_nn'"),
        ((data, TASK, fl.fedavg), r"algorithm must be an algorithm, such as fl.fedavg\(\), but is 'fedavg'"),
    ):
        with pytest.raises(ArgumentError, match=message):
            fl.run(*things)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match=message):
            fl.sweep(*things)  # type: ignore[arg-type]


def test_a_seed_out_of_range(generated: Make) -> None:
    with pytest.raises(ArgumentError, match="seed must be between 0 and 4,294,967,295"):
        fl.run(generated(SIZES), TASK, ALGORITHM, seed=-1)


def test_a_model_that_does_not_fit_the_data(generated: Callable[..., FederatedData]) -> None:
    data = generated([5, 5])
    with pytest.raises(ArgumentError, match=r"task must be a model for inputs of shape \(4,\) and 3 classes"):
        fl.run(data, fl.tasks.two_nn(), fl.fedavg(), rounds=1)
    with pytest.raises(ArgumentError, match="but is 'logistic for 2 classes'"):
        fl.run(data, fl.tasks.logistic(inputs=4, classes=2), fl.fedavg(), rounds=1)


def test_experiments_that_stopped_leave_the_program(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Side by side, three of four stop early; the fourth goes on in a smaller program, and nothing changes for it."""
    data, task = generated([8, 8, 8]), fl.tasks.logistic(inputs=4, classes=3)
    engine, algorithms = fl.engines.compiled(lanes=3, devices=1), [fl.fedavg(lr=lr) for lr in (0.1, 0.2, 0.3, 0.4)]
    settings = Settings(fl.runs.Stop(rounds=6), ("test",))

    def go(race: ongoing.Race | None) -> list[fl.Run]:
        names = [f"{i}" for i in range(4)]
        return train(engine, data, task, algorithms, [0, 1, 2, 3], settings, [None] * 4, names, race=race)

    whole = go(None)
    monkeypatch.setattr(ongoing, "COMPILING", 0.0)
    sizes, closed = [], []
    place = Program.place
    monkeypatch.setattr(Program, "place", lambda self, state: sizes.append(self.plan.members) or place(self, state))
    monkeypatch.setattr(Program, "close", lambda self: closed.append(self.plan.members))
    raced = go(lambda histories: [0, 1, 3] if histories[0].last("round") >= 2 else [])
    assert sizes[-1] == 1
    assert closed[0] == 4  # as soon as the smaller one takes over
    assert 1 in closed
    assert [int(run.history.last("round")) for run in raced] == [2, 2, 6, 2]
    assert raced[0].stopped == "overtaken by others"
    assert raced[2].history.last("test_loss") == pytest.approx(whole[2].history.last("test_loss"), rel=1e-5)
    assert raced[2].history.last("steps") == whole[2].history.last("steps")


def test_members_that_kept_more_or_less_go_on_together() -> None:
    """Rows that a member lacks are as its first, which is what everybody begins with."""
    kept = [ClientStates(np.zeros(4, np.int32), {"c": np.arange(1.0, many)}) for many in (3, 5)]
    states = [RoundState(Variables({}, {}), (), np.int32(0), {}, k, {}) for k in kept]
    assert [s.clients.rows["c"].tolist() for s in evened(states) if s.clients] == [[1, 2, 1, 1], [1, 2, 3, 4]]
    assert evened([replace(states[0], clients=None)])[0].clients is None
