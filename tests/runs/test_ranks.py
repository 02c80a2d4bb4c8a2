"""Runs over MPI: ranks as a user starts them, against the compiled engine, and against what can befall them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launched import MISSING, launch, write_toy
from safetensors.numpy import load_file

from fedloom.algorithms import dpa_sgd, fedavg
from fedloom.combine import Combiner, clipped, median
from fedloom.errors import ArgumentError
from fedloom.runs import load
from fedloom.runs.order import supported
from fedloom.selection import cohorts
from fedloom.tasks import logistic

pytestmark = pytest.mark.filterwarnings(f"default:{MISSING[:14]}")  # told after every run, not only with -rs
INTERRUPTED = "interrupted; it can be resumed"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where everything is kept; a run along a ring, left alone, is in ring."""
    made = tmp_path_factory.mktemp("peers")
    write_toy(made)
    return made


@pytest.fixture(scope="module")
def cases(folder: Path) -> dict[str, Any]:
    """What two ranks tell of all cases."""
    status, output = launch(2, "mpi_cases.py", str(folder), "all")
    assert status == 0, output
    [told] = [line for line in output.splitlines() if line.startswith("{")]  # between what ranks say of interrupts
    found: dict[str, Any] = json.loads(told)
    return found


@pytest.mark.parametrize("case", ["ring", "one peer", "fedavg", "fedavg, once"])
def test_two_ranks_agree_with_the_compiled_engine(cases: dict[str, Any], case: str) -> None:
    found = cases["agreement"][case]
    assert found["type"] == "float64"
    assert found["models"] <= 1e-9
    assert found["unlike"] > 0.1
    assert found["measures"] <= 1e-9
    assert [rank for rank, _ in found["workers"]] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_models_travel_only_between_ranks(cases: dict[str, Any]) -> None:
    model, rounds = 8 * (4 * 3 + 3), 10
    sent = [bytes_ for _, bytes_ in cases["agreement"]["ring"]["workers"]]
    assert sent == [rounds * model * (worker in (0, 3, 4, 7)) for worker in range(8)]


@pytest.mark.slow
def test_four_ranks_agree_with_the_compiled_engine(tmp_path: Path) -> None:
    write_toy(tmp_path)
    status, output = launch(4, "mpi_cases.py", str(tmp_path), "one")
    assert status == 0, output
    found = json.loads(output.splitlines()[-1])["agreement"]["one peer"]
    assert found["models"] <= 1e-9
    assert [rank for rank, _ in found["workers"]] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("combiner", [median(), clipped(1.0)])
def test_replies_are_only_averaged(combiner: Combiner) -> None:
    with pytest.raises(ArgumentError, match=r"by size or uniform, over MPI .*, but is 'fedavg, mine'"):
        supported(fedavg(combiner=combiner), logistic(inputs=4, classes=3), "fedavg, mine")


def test_meetings_that_are_drawn_anew_are_refused() -> None:
    pairs = dpa_sgd("random-pairs").for_clients(4)
    with pytest.raises(
        ArgumentError, match=r"dpa-sgd along a topology that is not drawn anew, local, .*, but is 'pairs'"
    ):
        supported(pairs, logistic(inputs=4, classes=3), "pairs")
    supported(dpa_sgd("one-peer-exponential").for_clients(4), logistic(inputs=4, classes=3), "one peer")


def test_more_ranks_than_workers_are_refused_everywhere(cases: dict[str, Any]) -> None:
    said = [told["refusal"] for told in cases["ranks"]]
    assert said == ["ranks must be at most as many as there are workers, 1, but is 2"] * 2


def test_a_run_does_not_go_on_with_fewer_rounds_or_other_settings(cases: dict[str, Any]) -> None:
    for told in cases["ranks"]:
        fewer, other = told["resumption"]
        assert "rounds must be at least 10, which are done already in" in fewer
        assert "with other settings (every = 1 there, 2 here): go on with those, or choose another folder" in other


def test_a_run_that_diverges_leaves_the_model_before(cases: dict[str, Any]) -> None:
    found = cases["ranks"][0]["divergence"]
    assert found["status"] == ["diverged", "diverged"]
    assert found["stopped"].startswith("diverged: update norm is inf after round 2")
    assert (found["finite"], found["round"], found["models"]) == (True, 0, 2)


def test_fewer_workers_train_on_the_clients_that_are_selected(cases: dict[str, Any]) -> None:
    selected = np.sort(cohorts("once", np.array([0], np.uint32), np.arange(4), np.ones(8), 3)[:, 0]).tolist()
    assert [told["once"] for told in cases["ranks"]] == [{"visited": selected, "verdict": "did 4 rounds"}] * 2


def test_an_interrupted_run_goes_on_with_the_same_numbers(cases: dict[str, Any]) -> None:
    first, second = (told["interruption"] for told in cases["ranks"])
    assert first["verdicts"] == second["verdicts"] == [INTERRUPTED, "did 10 rounds"]
    assert first["done"] == 4
    assert first["same"] <= 1e-9


def test_waits_are_bounded_and_name_who_is_missing(cases: dict[str, Any]) -> None:
    for rank, told in enumerate(cases["ranks"]):
        found = told["silence"]
        assert found["said"] == f"rank {1 - rank} (worker 3) did not answer within 0.3 s"
        assert 0.3 <= found["took"] < 10


def test_a_delayed_model_does_not_hold_up_its_sender(cases: dict[str, Any]) -> None:
    for rank, told in enumerate(cases["ranks"]):
        found = told["silence"]
        assert found["posted"] < 0.25 <= found["arrived"]  # half the delay: ranks do not begin at quite the same time
        assert found["got"] == [1.0 - rank] * 5


@pytest.mark.slow
def test_a_run_goes_on_after_anything_with_exactly_the_same_numbers(folder: Path, cases: dict[str, Any]) -> None:  # noqa: ARG001
    out = folder / "broken"
    ring = ["peers", str(folder / "ring" / "experiment.toml"), "--out", str(out), "--save-every", "2", "--quiet"]

    status, output = launch(2, "mpi_faults.py", *ring, FAULT="1:3:kill")
    assert status != 0, "mpiexec ends all ranks when one is killed"
    assert rounds_kept(out) == [{2}, {2}], output

    status, output = launch(2, "mpi_faults.py", *ring, FAULT="1:5:raise")
    assert status == 1, output
    for rank in (0, 1):
        assert f"rank {rank}: rank 1 left: ValueError: a bad day; round 5 is saved; go on with the same" in output
    assert rounds_kept(out) == [{2, 4, 5}, {2, 4, 5}]

    ring += ["--timeout", "2"]
    status, output = launch(2, "mpi_faults.py", *ring, left_alive=True, FAULT="1:7:kill")
    assert status == 1, output
    assert "rank 0: rank 1 (worker 7) did not answer within 2 s; round 7 is saved" in output
    assert rounds_kept(out) == [{4, 6, 7}, {4, 5, 6}]

    status, output = launch(2, "mpi_faults.py", *ring[:-2])
    assert status == 0, output
    alone, broken = (load_file(run / "model.safetensors") for run in (folder / "ring", out))
    assert alone.keys() == broken.keys()
    for name, array in alone.items():
        np.testing.assert_array_equal(broken[name], array)
    rows = [[{k: v for k, v in row.items() if k != "seconds"} for row in load(run).history.rows] for run in
            (folder / "ring", out)]  # fmt: skip
    assert rows[0] == rows[1]


def rounds_kept(out: Path) -> list[set[int]]:
    """The rounds of which each rank has a checkpoint."""
    from fedloom.runs.checkpoint import kept

    ranks = (out / f"rank-{rank}" for rank in (0, 1))
    return [{one.about["round"] for folder in (own, own / "leaving") for one in kept(folder)} for own in ranks]
