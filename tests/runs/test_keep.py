"""Which round's model a run keeps, and whose model it saves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms import Method
from fedloom.data import FederatedData
from fedloom.data.federated import Ranges
from fedloom.errors import ArgumentError, CheckpointError
from fedloom.federation.course import course
from fedloom.runs import model
from fedloom.runs.order import Order, prepared
from fedloom.runs.ownership import BESIDE_OWN, CLUSTERS, EACH, SHARED
from fedloom.runs.runner import train
from fedloom.runs.settings import Settings
from fedloom.runs.stopping import Stop
from fedloom.trees import flatten

Make = Callable[..., FederatedData]
TASK = fl.tasks.logistic(5, 2)
LARGE: dict[str, Any] = {"fraction": 0.7, "lr": 0.6, "batch_size": 4}
WORK: dict[str, Any] = {"fraction": 1.0, "lr": 0.5, "batch_size": 4}
LAYERS = fl.tasks.two_nn(5, hidden=4, classes=2)


@pytest.fixture
def thirds(generated: Make) -> FederatedData:
    """Three clients with training, validation and test examples. A quarter of the validation labels are wrong, so that
    the validation loss rises again before long.
    """
    data = generated([12, 12, 12], features=5, classes=2)
    data.central.clear()
    start, size = data.clients["train"].start, np.full(3, 4, np.int32)
    parts = ("train", "validation", "test")
    data.clients.update({part: Ranges(start + 4 * i, size) for i, part in enumerate(parts)})
    wrong = data.examples("validation")[::4]
    data.columns["y"][wrong] = 1 - data.columns["y"][wrong]
    return data


def same(a: Any, b: Any) -> None:
    for name, array in flatten(a).items():
        np.testing.assert_array_equal(array, flatten(b)[name], err_msg=name)


@pytest.mark.parametrize("algorithm", [fl.fedavg(**LARGE), fl.ditto(0.1, **LARGE)], ids=["fedavg", "ditto"])
def test_the_best_model_is_that_of_its_round_bit_for_bit(
    thirds: FederatedData, algorithm: Method, tmp_path: Path
) -> None:
    monitor = "own_validation_loss" if algorithm.is_personal else "validation_loss"
    kept = fl.run(thirds, TASK, algorithm, rounds=8, monitor=monitor, keep="best", directory=tmp_path)
    losses = kept.history.column(monitor)
    best = int(np.argmin(losses))
    assert kept.model_round == best and 0 < best < 8, losses  # or the test shows nothing
    alone = fl.run(thirds, TASK, algorithm, rounds=best)
    same(kept.variables, alone.variables)
    same(kept.of(1), alone.of(1))
    stored = json.loads((tmp_path / "history.json").read_text())
    assert (stored["round"], stored["monitor"], stored["keeps_best"]) == (8, monitor, True)
    written, about = model.read(tmp_path / "model.safetensors")
    same(written, alone.variables)
    kept.save(tmp_path / "saved.safetensors")
    again, told = model.read(tmp_path / "saved.safetensors")
    same(again, alone.variables)
    assert about["round"] == told["round"] == str(best)
    loaded = fl.load(tmp_path)
    same(loaded.variables, alone.variables)
    assert (loaded.model_round, loaded.monitor) == (best, monitor)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("ends", [3, 6])
def test_the_best_model_survives_a_kill(thirds: FederatedData, ends: int, tmp_path: Path) -> None:
    """The process ends without a word after a round; what goes on from the checkpoint ends as a run left alone."""
    stop = Stop(8, monitor="own_validation_loss", keep="best")
    settings, algorithm = Settings(stop, ("train",), save_seconds=0.0), fl.ditto(0.1, **LARGE)

    def die(histories: Any) -> None:
        if histories[0].last("round") == ends:
            raise Killed

    def go(folder: Path | None, watch: Any = None) -> Any:
        return train(fl.engines.compiled(), thirds, TASK, [algorithm], [0], settings, [folder], ["a"], watch)[0]

    with pytest.raises(Killed):
        go(tmp_path, die)
    resumed, whole = go(tmp_path), go(None)
    assert resumed.model_round == whole.model_round
    assert (
        resumed.history.column("own_validation_loss").tolist() == whole.history.column("own_validation_loss").tolist()
    )
    same(resumed.variables, whole.variables)
    for client in range(3):
        same(resumed.of(client), whole.of(client))


def test_patience_keeps_the_best_unless_told_so_and_a_target_the_last(thirds: FederatedData) -> None:
    algorithm = fl.fedavg(**LARGE)
    best = fl.run(thirds, TASK, algorithm, rounds=30, patience=3, monitor="validation_loss")
    assert best.stopped == "validation loss has not improved for 3 rounds"
    assert best.model_round == best.history.last("round") - 3
    last = fl.run(thirds, TASK, algorithm, rounds=30, patience=3, monitor="validation_loss", keep="last")
    assert last.model_round == last.history.last("round") == best.history.last("round")
    assert not jax.tree.all(jax.tree.map(np.array_equal, best.variables, last.variables))
    reached = fl.run(thirds, TASK, algorithm, rounds=30, target=0.0)
    assert (reached.stopped, reached.monitor, reached.best) == (
        "validation accuracy reached 0",
        "validation_accuracy",
        None,
    )
    plain = fl.run(thirds, TASK, algorithm, rounds=1)
    assert (plain.monitor, plain.model_round) == ("", 1) and "validation_loss" not in plain.history.columns


def test_a_diverged_run_keeps_the_best_model_before(thirds: FederatedData) -> None:
    settings = Settings(Stop(50, monitor="validation_loss", keep="best"), ())
    wild = fl.fedavg(fraction=1.0, lr=1e30, batch_size=4)
    [run] = train(fl.engines.compiled(), thirds, LAYERS, [wild], [0], settings, [None], ["a"])
    assert run.diverged and np.isfinite(run.history.column("validation_loss")).all()
    assert run.model_round == int(np.argmin(run.history.column("validation_loss")))
    assert all(np.isfinite(array).all() for array in flatten(run.variables).values())


def test_a_best_model_that_was_not_kept_is_not_made_up(thirds: FederatedData, tmp_path: Path) -> None:
    algorithm = fl.fedavg(**LARGE)
    fl.run(thirds, TASK, algorithm, rounds=3, evaluate="validation,test", directory=tmp_path)
    with pytest.raises(
        CheckpointError, match="keeps the last model, so the one that is best by validation_accuracy is"
    ):
        fl.run(thirds, TASK, algorithm, rounds=5, evaluate="validation,test", keep="best", directory=tmp_path)
    fl.run(thirds, TASK, algorithm, rounds=5, evaluate="validation,test", patience=9, keep="last", directory=tmp_path)


def test_words_for_keep() -> None:
    with pytest.raises(fl.errors.UnknownName, match="keep must be one of best, last, but is 'first'"):
        Stop(keep="first")
    assert fl.Experiment(keep="best").stop().keeps_best and not fl.Experiment().stop().keeps_best
    assert fl.Experiment(patience=3).stop().keeps_best and not fl.Experiment(patience=3, keep="last").stop().keeps_best
    assert fl.Experiment.from_toml('keep = "best"\nmonitor = "train_loss"').stop().monitor == "train_loss"


@pytest.mark.parametrize(
    ("algorithm", "models"),
    [(fl.fedavg(**WORK), SHARED), (fl.ditto(0.1, **WORK), BESIDE_OWN), (fl.ifca(2, **WORK), CLUSTERS),
     (fl.local_only(**WORK), EACH)],
    ids=["fedavg", "ditto", "ifca", "local"],
)  # fmt: skip
def test_a_file_says_whose_model_it_holds(
    thirds: FederatedData, algorithm: Method, models: str, tmp_path: Path
) -> None:
    run = fl.run(thirds, LAYERS, algorithm, rounds=2, directory=tmp_path)
    run.save(tmp_path / "saved.safetensors")
    for file in ("saved.safetensors", "model.safetensors"):
        found, about = model.read(tmp_path / file)
        assert about["models"] == models
        same(found, run.variables)
    run.save(tmp_path / "mine.safetensors", client=1)
    mine, about = model.read(tmp_path / "mine.safetensors")
    same(mine, run.of(1))
    assert about["models"] == "the one that client 1 uses"
    with pytest.raises(ArgumentError, match="shared_parts must be left alone: the model has no layers that are each"):
        run.save(tmp_path / "parts.safetensors", shared_parts=True)


@pytest.mark.parametrize("make", [fl.fedper, fl.fedrep])
def test_parts_that_nobody_shares_are_not_saved_as_the_model(thirds: FederatedData, make: Any, tmp_path: Path) -> None:
    run = fl.run(thirds, LAYERS, make("output", **WORK), rounds=2, label="mine", directory=tmp_path)
    for one in (run, fl.load(tmp_path)):
        error = (
            "client must be given, or shared_parts=True: mine has no shared model, because each client has its own laye"
        )
        with pytest.raises(ArgumentError, match=error):
            one.save(tmp_path / "no.safetensors")
        assert not (tmp_path / "no.safetensors").exists()
        one.save(tmp_path / "parts.safetensors", shared_parts=True)
        for file in ("parts.safetensors", "model.safetensors"):
            found, about = model.read(tmp_path / file)
            assert about["models"] == "shared parts" and sorted(found.params) == ["hidden1", "hidden2"]
    run.save(tmp_path / "whole.safetensors", client=2)
    same(model.load(tmp_path / "whole.safetensors"), run.of(2))


def test_where_only_the_last_model_can_be_kept_the_best_is_refused_before_the_run(generated: Make) -> None:
    data, stops = generated([9, 9], features=5, classes=2), (Stop(5, patience=2), Stop(5, keep="best"))
    for stop in stops:
        with pytest.raises(ArgumentError, match="keep must be last over a network, where models of earlier rounds are"):
            course(TASK, fl.fedavg(), data=data, stop=stop)
    course(TASK, fl.fedavg(), data=data, stop=Stop(5, patience=2, keep="last"))
    order = Order(fl.Experiment(patience=2).to_toml(), "", "all", None, 1, (0.0,), None)
    with pytest.raises(ArgumentError, match="keep must be last over MPI, where models of earlier rounds are not kept"):
        prepared(order, None)  # type: ignore[arg-type]
