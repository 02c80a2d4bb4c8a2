"""Python and the command line have the same defaults."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import fedloom as fl
from fedloom.cli.experiments import QUICK_START
from fedloom.federation import serve
from fedloom.runs import Experiment, Stop

FIELDS = {f.name: f.default for f in dataclasses.fields(Experiment)}
NAMES = {
    ("fedper", "layers"): "private", ("fedrep", "layers"): "private", ("dpa_sgd_mtl", "output"): "private",
    ("fedavg_mtl", "output"): "private", ("server", "lr"): "server_lr", ("shards", "per_client"): "shards",
    ("labels", "per_client"): "labels_each", ("affinity", "share"): "affinity", ("images", "size"): "image_size",
    ("trimmed", "share"): "trim", ("clock", "seed"): "data_seed", ("dpa_sgd", "weights"): "neighbours",
    ("dpa_sgd_mtl", "weights"): "neighbours",
}  # fmt: skip
"""Function and parameter → the field, where it has another name."""
OTHERWISE = {
    ("sweep", "evaluate"),  # fedloom sweep evaluates the test part alone, too
    ("serve", "address"), ("serve", "data"), ("emnist", "split"),  # namesakes
    ("naive", "validation"), ("stratified", "validation"), ("temporal", "validation"),  # shares
    ("sgd", "period"), ("private", "head_epochs"),  # None: epochs, and no turns
}  # fmt: skip
"""Parameters that mean something else than the field of their name."""
SAME: dict[str, tuple[Any, Any]] = {
    "latency": (0.0, "0"), "bandwidth": (float("inf"), None), "server_bandwidth": (float("inf"), None),
    "drop": ((), None), "categorical": ((), None), "numeric": ((), None), "images": (None, "auto"),
    "evaluate": (("train", "test"), "train,test"),
    "users": (False, "no"), "weighting": (fl.combine.by_size, "size"), "server": (fl.server(), "average"),
    "engine": (None, "compiled"), "epochs": (None, 1), "peers_by": (None, "random"), "weights": (None, "metropolis"),
}  # fmt: skip
"""Parameter → a default that means the same as the field's, in another form or if it is not given."""


def functions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {"Stop": Stop, "serve": serve}
    for space in (fl, fl.algorithms, fl.partition, fl.split, fl.combine, fl.data, fl.engines, fl.local, fl.runs):
        members = inspect.getmembers(space, inspect.isfunction)
        found |= {name: f for name, f in members if f.__module__.startswith("fedloom") and not name.startswith("_")}
    return found


def compared() -> list[tuple[str, str, str, Any]]:
    rows = []
    for function, f in functions().items():
        for parameter, p in inspect.signature(f).parameters.items():
            field = NAMES.get((function, parameter), parameter)
            if field in FIELDS and p.default is not p.empty and (function, parameter) not in OTHERWISE:
                rows.append((function, parameter, field, p.default))
    return rows


@pytest.mark.parametrize(("function", "parameter", "field", "default"), compared(), ids=lambda a: str(a)[:20])
def test_defaults_are_the_same(function: str, parameter: str, field: str, default: Any) -> None:
    assert default == FIELDS[field] or (default, FIELDS[field]) == SAME.get(parameter), function


def test_enough_is_compared() -> None:
    seen = {(function, parameter) for function, parameter, _, _ in compared()}
    assert {("run", "rounds"), ("run", "target"), ("sweep", "rounds"), ("sgd", "lr"), ("sgd", "batch_size"),
            ("fedavg", "fraction"), ("push_sum", "topology"), ("affinity", "clients"), ("dirichlet", "alpha"),
            ("ray", "pieces"), ("clock", "latency"), ("images", "size")} <= seen  # fmt: skip
    assert len(seen) > 70


def test_the_quick_start_is_the_only_target_that_nobody_asked_for() -> None:
    assert (Experiment().target, Experiment().rounds) == (Stop().target, Stop().rounds) == (None, 100)
    assert QUICK_START == {"target": 0.97, "rounds": 200}
