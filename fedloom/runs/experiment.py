"""Experiment: a frozen, complete, typed description of one run; the same experiment gives the same numbers."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedloom.algorithms import Algorithm, fedavg, server
from fedloom.combine import WEIGHTINGS
from fedloom.data import FederatedData, partition
from fedloom.errors import ArgumentError, UnknownName, choose, require
from fedloom.local.sgd import OPTIMIZERS, sgd
from fedloom.runs.catalogue import DATA, LISTING, MODELS
from fedloom.runs.stopping import Stop
from fedloom.tasks import Task


def about(text: str, default: Any, *, missing: str = "none", group: str = "Algorithm") -> Any:
    """A field, what it means, and how its absence (``None``) is written in files and on the command line."""
    return field(default=default, metadata={"help": text, "missing": missing, "group": group})


@dataclass(frozen=True)
class Experiment:
    """A complete description of one run. Every field is an option of the command line and a line of a TOML file.

    >>> experiment = Experiment(model="cnn", batch_size=None)
    >>> Experiment.from_toml(experiment.to_toml()) == experiment
    True
    """

    data: str = about("data set", "mnist", group="Data")
    partition: str = about("how examples are dealt to clients: iid or shards", "iid", group="Data")
    clients: int = about("K, how many clients there are", 100, group="Data")
    shards: int = about("shards a client, with partition shards", 2, group="Data")
    validation: int = about("examples held out at random before partitioning", 0, group="Data")
    data_seed: int = about("seed of the hold-out and the partition", 0, group="Data")
    model: str = about("model: 2nn, cnn or logistic", "2nn", group="Model")
    algorithm: str = about("algorithm: fedavg or fedsgd", "fedavg")
    fraction: float = about("C, the share of clients in a round; 0 is one client", 0.1)
    epochs: int = about("E, passes over a client's examples in a round", 1)
    batch_size: int | None = about("B, a client's batch size, or all", 10, missing="all")
    lr: float = about("η, a client's learning rate", 0.1)
    decay: float = about("the learning rate is multiplied by this every round", 1.0)
    optimizer: str = about("a client's optimiser: " + ", ".join(OPTIMIZERS), "sgd")
    weighting: str = about("how much a reply counts: size or uniform", "size")
    server: str = about("the server's step: average, momentum, adagrad, adam or yogi", "average")
    server_lr: float = about("the server's learning rate", 1.0)
    server_momentum: float = about("the server's momentum, with server momentum", 0.9)
    rounds: int = about("stop after this many rounds", 200, group="Stopping")
    target: float | None = about("stop when test accuracy reaches this, or none", 0.97, group="Stopping")
    patience: int | None = about("stop after this many rounds without improvement, or none", None, group="Stopping")
    seconds: float | None = about("stop after this many seconds, or none", None, group="Stopping")
    every: int = about("rounds between evaluations", 1, group="Running")
    evaluate: str = about("parts of the data to evaluate, comma-separated", "train,test", group="Running")
    seed: int = about("seed of everything random in the run", 0, group="Running")

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            object.__setattr__(self, f.name, convert(f, getattr(self, f.name)))
        for name in ("data", "partition", "model", "algorithm", "optimizer", "weighting", "server"):
            choose(name, getattr(self, name), LISTING[name])
        require(self.every >= 1, "every", "at least 1", self.every)
        require(0 <= self.seed < 2**32, "seed", "between 0 and 4294967295", self.seed)
        require(self.data_seed >= 0, "data_seed", "at least 0", self.data_seed)
        if self.algorithm == "fedsgd":
            require(self.epochs == 1, "epochs", "1 with algorithm fedsgd", self.epochs)
            require(self.batch_size in (None, 10), "batch_size", "all with algorithm fedsgd", self.batch_size)
            object.__setattr__(self, "batch_size", None)
        self.build_algorithm()
        self.stop()

    @classmethod
    def from_toml(cls, text: str) -> Experiment:
        """An experiment from TOML; fields that are not there have their defaults."""
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ArgumentError("the experiment file", f"TOML ({error})", text.strip()[:60]) from error
        return cls().replace(**values)

    @classmethod
    def read(cls, path: Path) -> Experiment:
        """An experiment from a TOML file."""
        if not path.is_file():
            raise ArgumentError("the experiment", "a TOML file that exists", str(path))
        return cls.from_toml(path.read_text())

    def replace(self, **changes: Any) -> Experiment:
        """The same experiment with some fields changed."""
        names = {f.name for f in dataclasses.fields(self)}
        for name in changes:
            if name not in names:
                raise UnknownName("a field of an experiment", name, names)
        return dataclasses.replace(self, **changes)

    def to_toml(self) -> str:
        """The experiment as TOML, complete."""
        lines, group = [], None
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if f.metadata["group"] != group:
                group = f.metadata["group"]
                lines += ["", f"# {group}"]
            shown = json.dumps(f.metadata["missing"] if value is None else value, ensure_ascii=False)
            lines.append(f"{f.name} = {shown}  # {f.metadata['help']}")
        return "\n".join(lines).lstrip() + "\n"

    def build_data(self) -> FederatedData:
        """The data, dealt to clients."""
        data = choose("data", self.data, DATA)()
        if self.validation:
            data = data.hold_out(self.validation, seed=self.data_seed)
        schemes = {
            "iid": lambda: partition.iid(self.clients),
            "shards": lambda: partition.shards(self.clients, self.shards),
        }
        return data.partition(choose("partition", self.partition, schemes)(), seed=self.data_seed)

    def build_task(self) -> Task:
        """The task."""
        return choose("model", self.model, MODELS)()

    def build_algorithm(self) -> Algorithm:
        """The algorithm. FedSGD is federated averaging with E = 1 and B = ∞."""
        local = sgd(self.lr, epochs=self.epochs, batch_size=self.batch_size, decay=self.decay, optimizer=self.optimizer)
        step = server(self.server, lr=self.server_lr, momentum=self.server_momentum)
        return fedavg(fraction=self.fraction, local=local, server=step, weighting=WEIGHTINGS[self.weighting])

    def stop(self) -> Stop:
        """When the run has done enough."""
        return Stop(self.rounds, self.seconds, self.target, self.patience)

    @property
    def splits(self) -> tuple[str, ...]:
        """The parts of the data to evaluate."""
        return tuple(part.strip() for part in self.evaluate.split(",") if part.strip())


def convert(f: dataclasses.Field[Any], value: Any) -> Any:
    """A field's value from what a file or the command line gave.

    >>> [convert(f, "7") for f in dataclasses.fields(Experiment) if f.name == "batch_size"]
    [7]
    """
    kind, optional = str(f.type).removesuffix(" | None"), str(f.type).endswith("| None")
    if optional and (value is None or value == f.metadata["missing"]):
        return None
    if kind == "str" and isinstance(value, str):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = None
    wanted = {"int": "a whole number", "float": "a number", "str": "a text"}[kind]
    wanted += f" or {f.metadata['missing']}" if optional else ""
    good = number is not None and not isinstance(value, bool) and kind != "str" and number == number
    require(good and (kind == "float" or float(number or 0).is_integer()), f.name, wanted, value)
    return int(number or 0) if kind == "int" else number
