from pathlib import Path
from typing import Any

import pytest

from fedloom.errors import ArgumentError, CheckpointError, UnknownName
from fedloom.runs.plan import Plan


def labels(seeds: tuple[int, ...] = (0,), **given: Any) -> list[str]:
    return list(Plan.of(given, list(seeds)).experiments())


def test_every_combination_of_values_and_seeds() -> None:
    found = Plan.of({"lr": "0.1,0.2", "server": "average,adam", "rounds": "9"}, [0, 7]).experiments()
    assert list(found) == [
        f"lr={lr},server={server},seed={seed}"
        for lr in (0.1, 0.2) for server in ("average", "adam") for seed in (0, 7)
    ]  # fmt: skip
    e = found["lr=0.2,server=adam,seed=7"]
    assert (e.lr, e.server, e.seed, e.rounds) == (0.2, "adam", 7, 9)


def test_what_an_algorithm_has_no_use_for_is_left_out_for_it() -> None:
    assert labels(algorithm="fedavg,dpa-sgd", topology="ring,torus") == [
        "algorithm=fedavg,seed=0", "algorithm=dpa-sgd,topology=ring,seed=0", "algorithm=dpa-sgd,topology=torus,seed=0",
    ]  # fmt: skip
    both = Plan.of({"algorithm": "fedavg,fedprox", "mu": "0.5", "combine": "mean,trimmed", "trim": "0.2"}, [0])
    found = {label: (e.mu, e.trim) for label, e in both.experiments().items()}
    assert found == {
        "algorithm=fedavg,combine=mean,seed=0": (0.01, 0.1), "algorithm=fedavg,combine=trimmed,seed=0": (0.01, 0.2),
        "algorithm=fedprox,combine=mean,seed=0": (0.5, 0.1), "algorithm=fedprox,combine=trimmed,seed=0": (0.5, 0.2),
    }  # fmt: skip


def test_a_topologys_seed_counts_for_those_that_are_random() -> None:
    assert labels(algorithm="dpa-sgd", topology="ring,regular,matcha:sparse:0.5", topology_seed="0,2") == [
        "topology=ring,seed=0", "topology=regular,topology_seed=0,seed=0", "topology=regular,topology_seed=2,seed=0",
        "topology=matcha:sparse:0.5,topology_seed=0,seed=0", "topology=matcha:sparse:0.5,topology_seed=2,seed=0",
    ]  # fmt: skip
    given = {"algorithm": "dpa-sgd", "topology": "ring,one-peer-exponential", "neighbours": "optimised"}
    assert [e.neighbours for e in Plan.of(given, [0]).experiments().values()] == ["optimised", "metropolis"]


def test_without_a_server_its_link_counts_for_nothing() -> None:
    given = {"algorithm": "fedavg,dpa-sgd", "compute": "0.1", "server_bandwidth": "1e6", "deadline": "5"}
    server, peers = Plan.of(given, [0]).experiments().values()
    assert (server.server_bandwidth, server.deadline) == (1e6, 5)
    assert (peers.server_bandwidth, peers.deadline) == (None, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mu": "0.1"}, "mu must be left alone with algorithm fedavg, which has no use for it, but is 0.1"),
        ({"algorithm": "fedavg,scaffold", "topology": "ring,torus"}, "topology must be left alone with algorithm fed"),
        ({"topology": "torus,ring"}, "topology must be left alone with algorithm fedavg"),
        ({"mu": "0.1,0.01"}, "mu must be left alone with algorithm fedavg"),
        ({"model": "cnn,2nn"}, "model must be one value; only algorithm, fraction, .* can have several"),
        ({"rounds": "5,9"}, "rounds must be one value"),
        ({"algorithm": "dpa-sgd", "topology_seed": "0,1"}, "topology_seed must be left alone with the topology ring"),
        ({"lr": "0.1,0.10"}, "lr must be different values"),
        ({"lr": "0.1,fast"}, "lr must be a number, but is 'fast'"),
        ({"algorithm": "fedavg,sgd"}, "algorithm must be one of .*, but is 'sgd'"),
        ({"algorithm": "dpa-sgd", "topology": "a/g.csv,b/g.csv"}, "axes must be values of different names"),
    ],
)
def test_what_cannot_be(given: dict[str, str], message: str) -> None:
    with pytest.raises((ArgumentError, UnknownName), match=message):
        labels(**given)


def test_a_plan_is_kept(tmp_path: Path) -> None:
    plan = Plan.of({"lr": "0.1,0.2", "batch_size": "all,10", "private": "a,b", "algorithm": "fedper"}, [0, 1])
    assert plan.common == {"private": "a,b", "algorithm": "fedper"}
    (tmp_path / "sweep.json").write_text(plan.as_json())
    assert Plan.read(tmp_path / "sweep.json") == plan
    assert {e.rounds for e in plan.changed(rounds=3).experiments().values()} == {3}
    (tmp_path / "sweep.json").write_text('{"experiment": "", "axes": {}, "seeds": [0]}')
    with pytest.raises(CheckpointError, match=r"sweep\.json is a plan of another version of fedloom"):
        Plan.read(tmp_path / "sweep.json")


@pytest.mark.parametrize(("given", "many"), [
    ({"algorithm": "personalised,fedavg", "peers": "3", "peers_by": "nearest"}, 2),
    ({"algorithm": "fedavg,dpa-sgd", "combine": "trimmed", "trim": "0.2"}, 2),
    ({"algorithm": "fedavg,dpa-sgd", "weighting": "validation-loss", "temperature": "0.5"}, 2),
    ({"combine": "mean,median", "weighting": "validation-loss", "temperature": "0.5"}, 2),
    ({"algorithm": "fedavg,personalised", "combine": "median,mean", "weighting": "uniform"}, 3),
])  # fmt: skip
def test_what_depends_on_something_left_out_is_left_out_too(given: dict[str, str], many: int) -> None:
    assert len(labels(**given)) == many


def test_a_seed_in_a_file_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"seed must be left out of a sweep, which has --seeds \(--seeds 3,\)"):
        Plan.of({"seed": 3, "lr": "0.1,0.2"}, [0])
