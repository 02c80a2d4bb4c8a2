"""A field that was given and has no effect is refused, however and with whatever value it was given."""

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedloom as fl
from fedloom.cli.agreement import owned
from fedloom.errors import ArgumentError
from fedloom.runs import Experiment
from fedloom.runs.methods import FIXED, METHODS
from fedloom.runs.plan import Plan
from fedloom.runs.prepare import OPTIONS, SCHEMES, deal, read

COLUMNS = {"x": np.zeros((60, 2), np.float32), "y": np.arange(60, dtype=np.int32) % 3}
TOY = fl.data.Dataset("toy", COLUMNS, 3, np.arange(60), users=np.arange(60) % 6, user_names=tuple("abcdef"))
DEFAULTS = {f.name: f.default for f in dataclasses.fields(Experiment)}
ABSENT = {f.name for f in dataclasses.fields(Experiment) if f.default is None and f.metadata["missing"] == "none"}
"""Fields whose default asks for nothing: ``none`` is accepted everywhere."""
OTHER: dict[str, Any] = {
    "fraction": 0.5, "epochs": 3, "batch_size": 7, "lr": 0.3, "decay": 0.9, "optimizer": "momentum",
    "weighting": "uniform", "moment": "before", "temperature": 2.0, "exclude": 2.0, "exclude_by": "training-loss",
    "combine": "median", "trim": 0.2, "clip": 0.5, "topology": "line", "topology_seed": 3, "neighbours": "uniform",
    "period": 7, "lambda1": 0.2, "lambda2": 0.3, "lambda3": 0.4, "lambda4": 0.5, "eta": 0.6, "upper": "hidden2",
    "peers": 5, "peers_by": "nearest", "mu": 0.7, "private": "hidden1", "head_epochs": 4, "clusters": 3, "q": 2.0,
    "server": "adam", "server_lr": 0.5, "server_momentum": 0.5, "compute": "0.2", "latency": "3", "bandwidth": "10",
    "server_bandwidth": 20.0, "lost": 0.1, "deadline": 9.0, "late": "stopped", "until_clock": 60.0, "until_bytes": 1e6,
    "actors": 3, "address": "auto", "pieces": 5, "selection": "once",
}  # fmt: skip
BASES: tuple[dict[str, Any], ...] = (
    {}, {"weighting": "training-loss"}, {"exclude": 1.0}, {"combine": "trimmed"}, {"server": "momentum"}, {"peers": 3},
    {"topology": "regular"}, {"topology": "random-pairs"}, {"upper": "hidden1"}, {"compute": "0.1"},
    {"compute": "0.1", "lost": 0.2, "deadline": 5.0}, {"engine": "ray"}, {"fraction": 1.0},
)  # fmt: skip


def built(e: Experiment) -> list[Any]:
    """Everything that is built from an experiment's fields apart from its data."""
    clock = e.build_clock()
    return [e.build_algorithm().describe(), clock.describe() if clock else None, e.stop(), e.build_engine()]


@pytest.mark.parametrize("algorithm", METHODS)
def test_every_field_has_an_effect_or_is_refused_even_with_its_default(algorithm: str) -> None:
    groups = ("Algorithm", "Time", "Engine")
    fields = {f.name for f in dataclasses.fields(Experiment) if f.metadata["group"] in groups}
    assert set(OTHER) >= fields - {"algorithm", "engine"}
    for base in BASES:
        try:
            plain = Experiment(algorithm=algorithm, **base)
        except ArgumentError:
            continue  # the base has no effect itself
        for name, value in OTHER.items():
            if name in base:
                continue
            try:
                changed = plain.replace(**{name: value})
            except ArgumentError as error:
                if str(error).startswith(f"{name} must be left alone") and name not in ABSENT:
                    with pytest.raises(ArgumentError, match=f"^{name} must be left alone "):
                        plain.replace(**{name: DEFAULTS[name]})
                continue
            assert built(changed) != built(plain), (base, name)


def test_a_default_that_contradicts_the_algorithm_is_refused() -> None:
    with pytest.raises(ArgumentError, match="batch_size must be all with algorithm fedsgd, but is 10"):
        Experiment(algorithm="fedsgd", batch_size=10)
    with pytest.raises(ArgumentError, match="batch_size must be all with algorithm fedsgd, but is 10"):
        Experiment.from_toml('algorithm = "fedsgd"\nbatch_size = 10')
    with pytest.raises(ArgumentError, match="batch_size must be all with algorithm fedsgd, but is 10"):
        Plan.of({"algorithm": "fedsgd", "batch_size": "10"}, [0]).experiments()
    with pytest.raises(ArgumentError, match=r"fraction must be 1 with algorithm central, but is 0\.5"):
        Experiment(algorithm="central", fraction=0.5)
    for algorithm, fixed in FIXED.items():
        assert Experiment(algorithm=algorithm, **fixed) == Experiment(algorithm=algorithm)


def test_nothing_is_sent_where_messages_would_take_time() -> None:
    for algorithm in ("local", "central"):
        for name in ("latency", "bandwidth", "until_bytes"):
            with pytest.raises(
                ArgumentError, match=f"{name} must be left alone with algorithm {algorithm}, which sends"
            ):
                Experiment(algorithm=algorithm, compute="0.1", **{name: OTHER[name]})


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_option_of_a_partition_is_used_or_refused_even_with_its_default(scheme: str) -> None:
    small: dict[str, Any] = {**DEFAULTS, "clients": 3, "shards": 1, "labels_each": 2, "most": 3}
    usual = {"clients": 3} if "clients" in SCHEMES[scheme][0] else {}
    for name in OPTIONS["partition"]:
        e = Experiment(partition=scheme, split="none", **{**usual, name: small[name]})
        if name in SCHEMES[scheme][0]:
            assert len(deal(e, TOY)) > 0
        else:
            with pytest.raises(ArgumentError, match=f"{name} must be left alone with the partition {scheme}"):
                deal(e, TOY)


def test_options_of_files_are_refused_for_other_data_even_with_their_defaults(tmp_path: Path) -> None:
    (tmp_path / "toy.json").write_text(
        '{"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": [[1]], "y": [0]}}}'
    )
    for data in ("mnist", str(tmp_path)):  # the second is a folder of LEAF's files
        for name in set(OPTIONS["data"]) - ABSENT:
            with pytest.raises(ArgumentError, match=f"{name} must be left alone with the data"):
                read(Experiment(data=data, **{name: DEFAULTS[name]}))


def test_pooling_needs_something_to_pool() -> None:
    with pytest.raises(ArgumentError, match="pool must be left alone with toy, which has no test or validation set"):
        deal(Experiment(pool="yes"), TOY)


def test_a_participants_number_of_clients_is_refused_even_if_it_is_the_default() -> None:
    with pytest.raises(ArgumentError, match="clients must be left alone without --part"):
        owned(Experiment(clients=100), None)
    assert owned(Experiment(), None).clients == 1


def test_a_sweep_refuses_a_seed_and_axes_without_effect() -> None:
    with pytest.raises(ArgumentError, match="seed must be left out of a sweep, which has --seeds"):
        Plan.of({"seed": 7}, [0])
    for given in ({"mu": "0.01,0.01"}, {"mu": "0.01,0.1"}, {"algorithm": "fedavg", "mu": 0.01}):
        with pytest.raises(ArgumentError, match="mu must be"):
            Plan.of(given, [0]).experiments()


def test_a_sweep_leaves_messages_out_where_nothing_is_sent() -> None:
    plan = Plan.of({"algorithm": "local,fedavg", "compute": "0.1", "latency": "3"}, [0])
    assert [e.latency for e in plan.experiments().values()] == ["0", "3"]


def test_functions_refuse_arguments_without_effect_even_with_their_defaults() -> None:
    for make, name in (
        (lambda: fl.personalised(peers_by="random"), "peers_by"),
        (lambda: fl.dpa_sgd("ring", epochs=1), "epochs"),
        (lambda: fl.dpa_sgd("random-pairs", weights="metropolis"), "weights"),
        (lambda: fl.dpa_sgd(np.eye(2), weights="metropolis"), "weights"),
    ):
        with pytest.raises(ArgumentError, match=f"{name} must be left alone"):
            make()


def test_a_file_tells_what_was_given() -> None:
    e = Experiment(algorithm="fedsgd", lr=0.1)
    again = Experiment.from_toml(e.to_toml())
    assert again == e and again.given == e.given == {"algorithm": "fedsgd", "lr": 0.1}
    assert again.replace(algorithm="local", epochs=2).epochs == 2  # what was not given may change
    edited = Experiment.from_toml(e.to_toml().replace("\nseed = 0", "\nseed = 3"))
    assert edited.given == {"algorithm": "fedsgd", "lr": 0.1, "seed": 3}  # also a line of the table of defaults


def test_copies_know_what_was_given() -> None:
    e = Experiment(model="2nn")
    assert [copied.given for copied in (copy.copy(e), pickle.loads(pickle.dumps(e)))] == [{"model": "2nn"}] * 2


def test_the_union_is_described_without_what_it_does_not_use() -> None:
    e = Experiment(algorithm="dpa-sgd", topology="torus", lr=0.3, compute="0.1", latency="2", users="yes", target=0.9)
    assert e.centrally(3).given == {"algorithm": "central", "lr": 0.3, "compute": "0.1", "rounds": 3}
