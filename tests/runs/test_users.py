from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quadratic import held_out, points, quadratic
from rich.console import Console

from fedloom.algorithms import ditto, fedavg, ifca, local_only, personalised, scaffold
from fedloom.combine import by_loss, excluding, uniform
from fedloom.engines import compiled
from fedloom.errors import ArgumentError, DivergedError
from fedloom.runs import Run, load, report, run, sweep
from fedloom.runs.portraits import bands
from fedloom.runs.users import summary
from fedloom.tasks import logistic

VALUES = [4.0, -1.0, 2.0, 0.5]
WORK = {"lr": 0.1, "epochs": 3, "batch_size": None}
LAYOUTS: list[dict[str, Any]] = [{}, {"lanes": 2, "devices": 1}]
LEFT = 0.8**3  # of the way to x, after three steps of lr 0.1 along two numbers


def half(values: Any) -> Any:
    return 0.5 * np.asarray(values) ** 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_shared_model_before_and_after_fitting(layout: dict[str, Any]) -> None:
    algorithm = fedavg(fraction=0.5, weighting=uniform, **WORK)
    done = run(points(VALUES), quadratic(), algorithm, rounds=3, seed=7, users=True, engine=compiled(**layout))
    cohorts = compiled(**layout).program(points(VALUES), quadratic(), [algorithm], [7]).cohorts(0, 3)[:, 0]
    w = 0.0
    for i, cohort in enumerate(np.sort(cohorts, axis=1)):
        x = np.array(VALUES)[cohort]
        ends = x + (w - x) * LEFT
        assert done.users.column("client")[i].tolist() == cohort.tolist()
        np.testing.assert_allclose(done.users.column("before_loss")[i], half(w - x), rtol=1e-4)
        np.testing.assert_allclose(done.users.column("after_loss")[i], half(ends - x), rtol=1e-4)
        on_all = [half(end - np.array(VALUES)).mean() for end in ends]
        np.testing.assert_allclose(done.users.column("global_loss")[i], on_all, rtol=1e-4)
        w = ends.mean()
    np.testing.assert_allclose(done.history.last("users_after_loss"), done.users.last("after_loss").mean(), rtol=1e-6)


def test_it_is_said_how_many_clients_were_measured_of_how_many() -> None:
    done = run(points(VALUES), quadratic(), fedavg(fraction=0.5, **WORK), rounds=1, users=True)
    assert (done.history.last("users_measured"), done.history.last("users_all")) == (2, 4)
    console = Console(width=200, record=True, file=StringIO())
    console.print(report.summary(done))
    assert "2 of 4 users, before fitting" in console.export_text()
    assert bands([("mine", done.users)]).axes[1].get_title() == "2 of 4 clients, in round 1"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_everybodys_own_model_before_and_after_fitting(layout: dict[str, Any]) -> None:
    algorithm = personalised(fraction=1.0, weighting=uniform, **WORK)
    done = run(points(VALUES), quadratic(), algorithm, rounds=2, users=True, engine=compiled(**layout))
    x = np.array(VALUES)
    mean = (x * (1 - LEFT)).mean()
    np.testing.assert_allclose(done.users.column("before_loss")[0], half(x), rtol=1e-5)
    np.testing.assert_allclose(done.users.column("before_loss")[1], half(mean - x), rtol=1e-4)
    np.testing.assert_allclose(done.users.column("after_loss")[1], half((mean - x) * LEFT), rtol=1e-4)
    np.testing.assert_allclose(done.users.column("mixing")[1], np.full((4, 4), 0.25), rtol=1e-6)


@pytest.mark.parametrize("layout", [pytest.param(LAYOUTS[0], marks=pytest.mark.slow), *LAYOUTS[1:]])
@pytest.mark.parametrize("make", [lambda **o: ditto(0.0, **o), lambda **o: ifca(1, **o), scaffold])
def test_what_a_user_uses_is_measured(make: Any, layout: dict[str, Any]) -> None:
    done = run(points(VALUES), quadratic(), make(fraction=1.0, **WORK), rounds=1, users=True, engine=compiled(**layout))
    x = np.array(VALUES)
    np.testing.assert_allclose(done.users.last("before_loss"), half(x), rtol=1e-5)
    np.testing.assert_allclose(done.users.last("after_loss"), half(x * LEFT), rtol=1e-4)


def test_measuring_users_changes_nothing() -> None:
    algorithm = fedavg(fraction=0.5, **WORK)
    plain, seen = (run(points(VALUES), quadratic(), algorithm, rounds=4, users=u, evaluate=["test"]) for u in (0, 1))
    np.testing.assert_allclose(plain.history.column("test_loss"), seen.history.column("test_loss"), rtol=1e-6)
    assert len(plain.users) == 0


def test_users_survive_a_stop(tmp_path: Path) -> None:
    algorithm, data = personalised(fraction=1.0, **WORK), points(VALUES)
    for rounds in (2, 4):
        cut = run(data, quadratic(), algorithm, rounds=rounds, users=True, directory=tmp_path / "cut")
    whole = run(data, quadratic(), algorithm, rounds=4, users=True)
    loaded = load(tmp_path / "cut")
    for users in (cut.users, loaded.users):
        assert users.columns.keys() == whole.users.columns.keys()
        for name in users.columns:
            np.testing.assert_array_equal(np.stack(users.column(name)), np.stack(whole.users.column(name)))


def test_only_evaluated_rounds_are_kept_and_a_sweep_measures_too() -> None:
    runs = sweep(
        points(VALUES), quadratic(), local_only(fraction=1.0, **WORK), lr=[0.1, 0.2], rounds=6, every=3, users=True
    )
    assert [[int(r) for r in done.users.column("round")] for done in runs] == [[3, 6], [3, 6]]
    assert runs[1].history.last("users_after_loss") < runs[0].history.last("users_after_loss")


def test_who_has_nothing_to_be_measured_on_does_not_count() -> None:
    told = summary({"client": np.arange(3), "after_loss": np.array([1.0, np.nan, 3.0])})
    assert told == {"users_measured": 2, "users_after_loss": 2.0, "users_after_loss_q10": 1.2,
                    "users_after_loss_q50": 2.0, "users_after_loss_q90": 2.8,
                    "users_after_loss_worst": 3.0}  # fmt: skip


def test_a_broken_model_that_is_left_out_stops_nobody(validated: Any) -> None:
    """Who watches does not change what happens: one client's model breaks, and the weighting leaves it out."""
    data = validated([9, 9, 9])
    data.clients["test"] = data.clients["validation"]
    data.columns["x"][data.examples("train", 1)] = np.inf
    algorithm = fedavg(fraction=1.0, weighting=excluding(1.0, uniform, metric="loss"), lr=0.1)
    runs = [run(data, logistic(4, 3), algorithm, rounds=2, users=u, evaluate=["test"]) for u in (False, True)]
    assert [r.stopped for r in runs] == ["did 2 rounds"] * 2
    assert not np.isfinite(runs[1].users.last("after_loss")).all()


def test_data_without_a_test_part_is_refused(generated: Any) -> None:
    data = generated([10, 10], test=1)
    data.central.clear()
    with pytest.raises(ArgumentError, match="users must be left alone: there is no test data"):
        run(data, logistic(4, 3), fedavg(), rounds=1, users=True, evaluate=["train"])


def test_a_diverged_run_forgets_the_round_that_broke(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(DivergedError):
            run(points(VALUES), quadratic(), fedavg(fraction=1.0, lr=1e25, epochs=3), rounds=3, users=True,
                evaluate=["test"], directory=tmp_path / "run")  # fmt: skip
    assert len(load(tmp_path / "run").users) == 0


def beginnings(done: Run) -> list[str]:
    """Return the moments that a run's clients were measured at, from the columns of its history."""
    names = [name for name in done.history.columns if name.startswith("users_") and name.endswith("_loss")]
    assert sorted(name.removeprefix("users_") for name in names) == sorted(
        n for n in done.users.measures if n.endswith("_loss")
    )
    return sorted(name.removeprefix("users_").removesuffix("_loss") for name in names)


WAYS: list[Any] = [
    fedavg(fraction=1.0, weighting=uniform, **WORK),
    personalised(fraction=1.0, weighting=uniform, **WORK),
    ifca(1, fraction=1.0, **WORK),
    fedavg(fraction=1.0, weighting=by_loss(on="test", moment="before"), **WORK),
]


@pytest.mark.parametrize("algorithm", WAYS, ids=["shared", "own", "clusters", "weighted by test loss"])
def test_on_test_data_that_belongs_to_no_client_both_measurements_are_named_global(algorithm: Any) -> None:
    tests = np.array([1.0, 3.0, -2.0])
    done = run(held_out(VALUES, tests.tolist()), quadratic(), algorithm, rounds=1, users=True, evaluate=[])
    assert beginnings(done) == ["global", "global_before"]
    ends = np.array(VALUES) * (1 - LEFT)
    np.testing.assert_allclose(done.users.last("global_before_loss"), np.full(4, half(tests).mean()), rtol=1e-5)
    np.testing.assert_allclose(done.users.last("global_loss"), half(ends[:, None] - tests).mean(1), rtol=1e-4)


@pytest.mark.parametrize("algorithm", WAYS[1::2], ids=["own", "weighted by test loss"])
def test_on_clients_own_test_data_the_measurements_are_before_and_after(algorithm: Any) -> None:
    done = run(points(VALUES), quadratic(), algorithm, rounds=1, users=True, evaluate=[])
    assert beginnings(done) == ["after", "before", "global"]
    x = np.array(VALUES)
    np.testing.assert_allclose(done.users.last("before_loss"), half(x), rtol=1e-5)
    np.testing.assert_allclose(done.users.last("after_loss"), half(x * LEFT), rtol=1e-4)
    on_all = half(x[:, None] * (1 - LEFT) - x).mean(1)
    np.testing.assert_allclose(done.users.last("global_loss"), on_all, rtol=1e-4)


@pytest.mark.parametrize(
    ("data", "rows", "direction"),
    [
        (points(VALUES), ["before fitting", "after fitting", "after fitting, on everybody's data"], "users_after_loss"),
        (held_out(VALUES, [1.0]), ["before fitting, on everybody's data", "after fitting, on everybody's data"],
         "users_global_before_loss"),
    ],
    ids=["own", "held out"],
)  # fmt: skip
def test_the_table_and_the_json_of_a_run_name_the_test_data(data: Any, rows: list[str], direction: str) -> None:
    done = run(data, quadratic(), fedavg(fraction=1.0, **WORK), rounds=1, users=True)
    console = Console(width=200, record=True, file=StringIO())
    console.print(report.summary(done))
    told = [line.split("│")[1].strip() for line in console.export_text().splitlines() if "4 of 4 users" in line]
    assert told == [f"4 of 4 users, {row}" for row in rows]
    assert report.as_json(done)[f"{direction}_worst"] == done.history.last(f"{direction}_worst")
    assert done.history.direction(direction) == "lower"
