from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quadratic import points, quadratic

import fedloom as fl
from fedloom.algorithms import fedavg, fedper, fedprox, personalised, qfedavg
from fedloom.combine import by_loss, excluding
from fedloom.data import FederatedData
from fedloom.errors import ArgumentError, UnknownName
from fedloom.runs.sweep import Point, combinations, place
from fedloom.trees import flatten

Make = Callable[..., FederatedData]
TASK = fl.tasks.logistic(inputs=4, classes=3)
SIZES = [5, 12, 30, 8]


def equal(a: fl.Run, b: fl.Run) -> bool:
    x, y = flatten(a.variables), flatten(b.variables)
    return all((x[name] == y[name]).all() for name in x)


def test_every_member_is_the_run_alone_bit_for_bit(generated: Make) -> None:
    data = generated(SIZES)
    runs = fl.sweep(data, TASK, fl.fedavg(fraction=0.5), lr=[0.05, 0.2], epochs=[1, 3], seeds=2, rounds=4)
    assert len(runs) == 8
    for run in runs:
        options = dict(part.split("=") for part in run.label.split(","))
        algorithm = fl.fedavg(fraction=0.5, lr=float(options["lr"]), epochs=int(options["epochs"]))
        alone = fl.run(data, TASK, algorithm, rounds=4, seed=int(options["seed"]), evaluate=["test"])
        assert equal(run, alone)
        assert run.history.column("test_loss").tolist() == alone.history.column("test_loss").tolist()


def test_side_by_side_members_stop_on_their_own(generated: Make) -> None:
    data, engine = generated(SIZES), fl.engines.compiled(devices=1, lanes=2)
    alone = [
        fl.run(data, TASK, fl.fedavg(fraction=0.5, lr=lr), rounds=12, target=0.8, engine=engine, evaluate=["test"])
        for lr in (0.01, 0.5)
    ]
    runs = fl.sweep(data, TASK, fl.fedavg(fraction=0.5), lr=[0.01, 0.5], rounds=12, target=0.8, engine=engine)
    assert [r.history.last("round") for r in runs] == [r.history.last("round") for r in alone]
    assert runs[0].history.last("round") != runs[1].history.last("round")
    for a, b in zip(runs, alone, strict=True):
        x, y = flatten(a.variables), flatten(b.variables)
        for name in x:
            np.testing.assert_allclose(x[name], y[name], rtol=1e-5, atol=1e-6)


def test_shapes_may_differ_too(generated: Make) -> None:
    runs = fl.sweep(generated(SIZES), TASK, fl.fedavg(), batch_size=[4, None], fraction=[0.5, 1.0], rounds=2)
    assert [r.label for r in runs] == [
        "batch_size=4,fraction=0.5,seed=0", "batch_size=4,fraction=1.0,seed=0",
        "batch_size=all,fraction=0.5,seed=0", "batch_size=all,fraction=1.0,seed=0",
    ]  # fmt: skip
    assert runs[0].history.last("steps") < runs[1].history.last("steps")


def test_a_member_that_diverges_does_not_stop_the_others(generated: Make) -> None:
    runs = fl.sweep(generated(SIZES), TASK, fl.fedavg(fraction=0.5), lr=[1e25, 0.1], rounds=6)
    assert [r.diverged for r in runs] == [True, False]
    assert runs[1].history.last("round") == 6


def test_a_sweep_goes_on_where_it_stopped(generated: Make, tmp_path: Path) -> None:
    data = generated(SIZES)

    def go(rounds: int, folder: Path) -> list[fl.Run]:
        return fl.sweep(data, TASK, fl.fedavg(fraction=0.5), lr=[0.1, 0.2], rounds=rounds, directory=folder)

    go(2, tmp_path / "a")
    for resumed, alone in zip(go(5, tmp_path / "a"), go(5, tmp_path / "b"), strict=True):
        assert equal(resumed, alone)
    assert (tmp_path / "a" / "lr=0.1,seed=0" / "history.json").exists()


@pytest.mark.parametrize(("axis", "value"), [("lr", -1.0), ("epochs", 0), ("fraction", 2.0), ("server_lr", 0.0)])
def test_bad_values_are_refused_before_anything_runs(generated: Make, axis: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=f"{axis} must be .*, but is {value}"):
        fl.sweep(generated(SIZES), TASK, fl.fedavg(), **{axis: [value]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 0.1}, "lr must be a list, but is 0.1"),
        ({"lr": [0.1, 0.1]}, r"lr must be different values, but is \[0.1, 0.1\]"),
        ({"seeds": [3, 3]}, r"seeds must be different ones, but is \[3, 3\]"),
        ({"seeds": 0}, "seeds must be at least one"),
    ],
)
def test_what_is_no_sweep(generated: Make, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        fl.sweep(generated([4, 6]), fl.tasks.logistic(inputs=4, classes=3), fl.fedavg(), **options)


def test_an_unknown_axis(generated: Make) -> None:
    with pytest.raises(UnknownName, match=r"an axis of a sweep must be one of batch_size, clip, decay.*but is 'nu'"):
        fl.sweep(generated(SIZES), TASK, fl.fedavg(), nu=[0.1])


def test_weightings_numbers_are_swept_wherever_they_stand() -> None:
    rules = [
        (fedavg(weighting=by_loss()), "temperature", ("routing", "weighting", "temperature")),
        (fedavg(weighting=excluding(among=by_loss())), "temperature", ("routing", "weighting", "among", "temperature")),
        (personalised(weighting=excluding()), "exclude", ("routing", "mixer", "weighting", "z")),
    ]
    for algorithm, axis, path in rules:
        assert place(algorithm, axis) == path
        [point] = combinations({"": algorithm}, {axis: [0.5]}, [0])
        assert point.algorithm.describe()[axis] == 0.5
        with pytest.raises(ArgumentError, match=f"{axis} must be above 0"):
            combinations({"": algorithm}, {axis: [-1.0]}, [0])
    with pytest.raises(ArgumentError, match="temperature must be left alone: nothing in"):
        combinations({"": fedavg()}, {"temperature": [1.0]}, [0])


@pytest.mark.parametrize(
    ("make", "axes"),
    [
        (lambda: fedprox(epochs=3), {"mu": [0.0, 0.5]}),
        (qfedavg, {"q": [0.0, 2.0]}),
        (lambda: fedper("output"), {"lr": [0.1, 0.2]}),
    ],
)
def test_numbers_inside_local_work_and_weightings_are_swept(make: Any, axes: dict[str, list[float]]) -> None:
    runs = fl.sweep(points([4.0, -1.0]), quadratic(), make(), rounds=3, **axes)
    column = "own_test_loss" if make().is_personal else "test_loss"
    assert len({r.history.last(column) for r in runs}) == 2


def test_every_point_is_checked_before_any_runs() -> None:
    seen: list[object] = []
    with pytest.raises(ArgumentError, match=r"fraction must be enough for 2 of 4 users to meet, but is 0\.1"):
        fl.sweep(points([1.0] * 4), quadratic(), fl.personalised(), fraction=[1.0, 0.1], rounds=1,
                 watch=seen.append)  # type: ignore[arg-type]  # fmt: skip
    assert not seen
    with pytest.raises(ArgumentError, match="exclude must be numbers, to be swept"):
        fl.sweep(points([1.0] * 4), quadratic(), fl.fedavg(weighting=excluding(1.0)), exclude=[1.0, None], rounds=1)  # type: ignore[list-item]


def test_several_algorithms_are_swept_each_over_the_numbers_that_it_has(generated: Make, tmp_path: Path) -> None:
    data = generated([8] * 4)
    several = {"server": fl.fedavg(fraction=1.0), "ring": fl.dpa_sgd("ring"), "all": fl.dpa_sgd("complete")}
    runs = fl.sweep(data, TASK, several, period=[1, 3], lr=[0.1], rounds=3, directory=tmp_path)
    assert [run.label for run in runs] == [
        "server,lr=0.1,seed=0", *(f"{name},period={n},lr=0.1,seed=0" for name in ("ring", "all") for n in (1, 3)),
    ]  # fmt: skip
    alone = fl.run(data, TASK, fl.dpa_sgd("ring", period=3, lr=0.1), rounds=3, evaluate=["test"])
    assert equal(runs[2], alone)
    assert (tmp_path / "ring,period=3,lr=0.1,seed=0" / "history.json").exists()
    with pytest.raises(ArgumentError, match=r"temperature must be left alone: nothing in .* or .* has one"):
        fl.sweep(data, TASK, several, temperature=[1.0])
    with pytest.raises(ArgumentError, match="algorithm must be at least one"):
        fl.sweep(data, TASK, {})


def test_names_of_folders_are_plain() -> None:
    assert Point("topology=regular:4,seed=0", fedavg(), 0).folder == "topology=regular-4,seed=0"
    assert Point("a/b c,seed=0", fedavg(), 0).folder == "a-b-c,seed=0"


def test_who_counts_epochs_has_no_period() -> None:
    with pytest.raises(ArgumentError, match="period must be left alone"):
        combinations({"": fedavg()}, {"period": [1]}, [0])


def test_labels_are_plain_and_folders_are_not_shared(generated: Make, tmp_path: Path) -> None:
    [point] = combinations({"": fedavg()}, {"lr": np.array([0.05])}, [0])  # type: ignore[dict-item]
    assert point.label == "lr=0.05,seed=0"
    with pytest.raises(ArgumentError, match="algorithm must be names of different folders, but is 'ring-1,seed=0'"):
        fl.sweep(generated(SIZES), TASK, {"ring 1": fedavg(), "ring/1": fedavg()}, directory=tmp_path)
