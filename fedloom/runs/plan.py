"""Plan: the experiments of a sweep, from what they have in common and what varies."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from fedloom.errors import CheckpointError, require
from fedloom.runs.experiment import Experiment
from fedloom.runs.fields import convert
from fedloom.runs.methods import DECIDING, METHODS, OPTIONS, useless
from fedloom.trees import listed

FIELDS = {f.name: f for f in fields(Experiment)}
LISTS = ("private", "upper", "evaluate", "drop", "categorical", "delimiter", "decimal")
"""Fields in which a comma is no list of values."""
SWEPT = tuple(name for name, f in FIELDS.items() if f.metadata["group"] == "Algorithm" and name not in LISTS)
"""The fields that may have several values: those of the algorithm, by which data and model stay the same."""


@dataclass(frozen=True)
class Plan:
    """A sweep: the fields that all its experiments have, those that have several values, and the seeds."""

    common: dict[str, Any]
    axes: dict[str, list[Any]]
    seeds: list[int]

    @classmethod
    def of(cls, given: Mapping[str, Any], seeds: list[int]) -> Plan:
        """From fields, of which texts with commas are several values.

        >>> Plan.of({"topology": "ring,torus", "algorithm": "dpa-sgd", "rounds": "9"}, [0]).axes
        {'topology': ['ring', 'torus']}
        """
        axes: dict[str, list[Any]] = {}
        for name, value in given.items():
            if not isinstance(value, str) or "," not in value or name in LISTS:
                continue
            only = f"one value; only {', '.join(SWEPT)} can have several"
            require(name in SWEPT, name, only, value)
            axes[name] = [convert(FIELDS[name], one) for one in listed(value)]
            require(len(set(axes[name])) == len(axes[name]), name, "different values", value)
        seed = given.get("seed")
        require(seed is None, "seed", f"left out of a sweep, which has --seeds (--seeds {seed},)", seed)
        common = {n: convert(FIELDS[n], value) for n, value in given.items() if n not in axes}
        return cls(common, axes, seeds)

    @classmethod
    def read(cls, file: Path) -> Plan:
        """From a file."""
        content = json.loads(file.read_text())
        if set(content) != {"common", "axes", "seeds"}:
            raise CheckpointError(f"{file} is a plan of another version of fedloom: begin the sweep anew")
        return cls(**content)

    def as_json(self) -> str:
        """The plan as a file holds it."""
        return json.dumps({"common": self.common, "axes": self.axes, "seeds": self.seeds}, indent=1) + "\n"

    def changed(self, **changes: Any) -> Plan:
        """The same with other common fields."""
        return replace(self, common=self.common | changes)

    def experiments(self) -> dict[str, Experiment]:
        """Label → experiment: every combination of values, and of seeds. A field of which a combination has no use is
        left out of it, if another combination uses it.

        >>> plan = Plan.of({"algorithm": "fedavg,fedprox", "mu": "0.1,1"}, [0])
        >>> list(plan.experiments())
        ['algorithm=fedavg,seed=0', 'algorithm=fedprox,mu=0.1,seed=0', 'algorithm=fedprox,mu=1.0,seed=0']
        """
        found, combinations = dict[str, Experiment](), list(self.combinations())
        used = set().union(*combinations)
        idle = {name: value for name, value in self.common.items() if name not in used}
        for combination in combinations:
            for seed in self.seeds:
                parts = [f"{name}={shown(name, combination[name])}" for name in self.axes if name in combination]
                label = ",".join([*parts, f"seed={seed}"])
                e = Experiment().replace(**combination, **idle, seed=seed)  # what is of no use to anybody is refused
                require(found.get(label, e) == e, "axes", "values of different names", label)
                found[label] = e
        for name in (name for name in self.axes if name not in used):
            Experiment().replace(**combinations[0], **{name: self.axes[name][0]})  # is refused
        return found

    def combinations(self) -> Iterator[dict[str, Any]]:
        """The fields of every combination of values that it has a use for."""
        for values in itertools.product(*self.axes.values()):
            given = self.common | dict(zip(self.axes, values, strict=True))
            idle = idle_of(given)
            yield {name: value for name, value in given.items() if name not in idle}


def idle_of(given: Mapping[str, Any]) -> set[str]:
    """The fields that an experiment has no use for; what depends on one of them is of no use either.

    >>> sorted(idle_of({"algorithm": "dpa-sgd", "combine": "trimmed", "trim": 0.2}) & {"combine", "trim"})
    ['combine', 'trim']
    """
    usual = {name: f.default for name, f in FIELDS.items()}
    method = given.get("algorithm", usual["algorithm"])
    if method not in METHODS:
        return set()  # which is told of when it is built
    idle = set(OPTIONS) - set(METHODS[method][0])
    while more := useless_now(usual | {name: v for name, v in given.items() if name not in idle}) - idle:
        idle |= more
    return idle


def useless_now(e: Mapping[str, Any]) -> set[str]:
    """Return the fields that have no effect, given the values of all fields."""
    return set(useless({name: e[name] for name in DECIDING}))


def shown(name: str, value: Any) -> str:
    """A value in a label: a file by its name, and what is missing as it is written.

    >>> shown("topology", "graphs/ours.csv"), shown("batch_size", None), shown("lr", 0.1)
    ('ours', 'all', '0.1')
    """
    if isinstance(value, str) and value.endswith(".csv"):
        return Path(value).stem
    return str(FIELDS[name].metadata["missing"]) if value is None else str(value)
