"""Experiment: a frozen, complete, typed description of one run; the same experiment gives the same numbers."""

from __future__ import annotations

import dataclasses
import json
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from fedloom.algorithms import Method, server
from fedloom.combine import Combiner, Weighting, clipped, excluding
from fedloom.data import FederatedData
from fedloom.data.inputs import white
from fedloom.engines import Engine, compiled, processes, ray, reference
from fedloom.engines.clock import Clock, clock
from fedloom.errors import ArgumentError, UnknownName, choose, require
from fedloom.local.sgd import OPTIMIZERS, sgd
from fedloom.mixing import WEIGHTS
from fedloom.mixing.gossip import changes
from fedloom.runs.catalogue import COMBINERS, INPUTS, LISTING, MODELS, WEIGHTINGS, is_path
from fedloom.runs.fields import about, convert
from fedloom.runs.methods import DECIDING, FIXED, METHODS, useless
from fedloom.runs.settings import Settings
from fedloom.runs.stopping import Stop
from fedloom.tasks import Task, mixed, rescaled
from fedloom.trees import listed


@dataclass(frozen=True)
class Experiment:
    """A complete description of one run. Every field is an option of the command line and a line of a TOML file.

    An experiment knows which fields it was given. A field that was given and would have no effect is an error, also if
    it was given the value that is its default.

    >>> experiment = Experiment(model="cnn", batch_size=None)
    >>> Experiment.from_toml(experiment.to_toml()) == experiment
    True
    >>> Experiment(mu=0.01)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: mu must be left alone with algorithm fedavg, which has no use for it, but is 0.01
    """

    data: str = about("a data set's name, or a file or folder", "mnist", group="Data")
    label: str | None = about("the column of a CSV that is predicted", None, group="Data")
    task: str = about("labels are classes or numbers: auto, classification or regression", "auto", group="Data")
    user: str | None = about("the column of a CSV that says whose a row is", None, group="Data")
    drop: str | None = about("columns of a CSV that are no features, comma-separated", None, group="Data")
    categorical: str | None = about("columns of a CSV that hold texts, comma-separated", None, group="Data")
    numeric: str | None = about(
        "columns of a CSV that hold numbers although they look like identifiers, comma-separated", None, group="Data"
    )
    dates: str = about(
        "dates in a CSV: auto, none or columns, comma-separated; also day-first or month-first", "auto", group="Data"
    )
    case: str = about("texts of a CSV that differ in capitals only are the same or different", "ask", group="Data")
    unlabelled: str = about("rows of a CSV without a label are an error, or skip them", "error", group="Data")
    delimiter: str | None = about("what stands between the cells of a CSV", None, missing="auto", group="Data")
    decimal: str = about("what stands before decimals in a CSV: . or ,", ".", group="Data")
    thousands: str | None = about("what stands between groups of three digits in a CSV", None, group="Data")
    window: int | None = about("consecutive rows of a CSV that are one example", None, group="Data")
    step: int | None = about("rows from one window to the next", None, missing="window", group="Data")
    image_size: int = about("images are cropped and scaled to this many pixels square", 32, group="Data")
    colours: str = about("images in rgb or grey", "rgb", group="Data")
    images: str = about(
        "whether arrays (.npz, HDF5) are images, which become 0 to 1: auto, yes or no", "auto", group="Data"
    )
    unreadable: str = about("an unreadable image is an error, or skip it", "error", group="Data")
    partition: str = about("how examples are dealt to clients: see fedloom list", "auto", group="Clients")
    clients: int = about("K, how many clients there are (natural: all users)", 100, group="Clients")
    most: int | None = about(
        "so many users at most, drawn at random, with natural", None, missing="all", group="Clients"
    )
    shards: int = about("shards a client, with shards", 2, group="Clients")
    alpha: float = about("α of dirichlet: the smaller, the more unlike clients are", 0.5, group="Clients")
    sigma: float = about("σ of lognormal: how unequal sizes are", 1.0, group="Clients")
    exponent: float = about("of power: how unequal sizes are", 1.5, group="Clients")
    labels_each: int = about("classes a client has, with labels", 2, group="Clients")
    affinity: float = about(
        "s: a client's favourite class has s + (1 - s)/C of it, of C equal classes, with affinity", 0.8, group="Clients"
    )
    least: int = about("examples a client has at least; natural leaves others out", 1, group="Clients")
    noise: float = about("deviation of the noise that the last client sees, the first none", 0.0, group="Clients")
    rotation: float = about("client k's images are turned by k times so many degrees", 0.0, group="Clients")
    split: str = about("how clients' data is split: see fedloom list", "auto", group="Clients")
    validation_share: float | None = about("share for validation when split", None, missing="auto", group="Clients")
    test_share: float | None = about("share for testing when split", None, missing="auto", group="Clients")
    pool: str = about("yes: deal the test set of the data too, and split everything", "no", group="Clients")
    validation: int = about("examples held out at random before partitioning", 0, group="Clients")
    data_seed: int = about("seed of the hold-out, the partition and the split", 0, group="Clients")
    model: str = about("model: see fedloom list", "2nn", group="Model")
    inputs: str = about("how pixels become numbers: unit, centred or standard", "unit", group="Model")
    precision: str = about("what training computes in: float32, or bfloat16 (accelerators)", "float32", group="Model")
    algorithm: str = about("algorithm: see fedloom list", "fedavg")
    fraction: float = about("C, the share of clients in a round; 0 is one client", 0.1)
    selection: str = about("how the clients of a round are selected: see fedloom list", "uniform")
    epochs: int | str = about(
        "E, passes over a client's examples in a round; or lognormal:MEDIAN:SPREAD, uniform:LOW:HIGH, or a CSV file "
        "with the columns client and epochs", 1
    )  # fmt: skip
    batch_size: int | None = about("B, a client's batch size, or all", 10, missing="all")
    lr: float = about("η, a client's learning rate", 0.1)
    decay: float = about("the learning rate is multiplied by this every round", 1.0)
    optimizer: str = about("a client's optimiser: " + ", ".join(OPTIMIZERS), "sgd")
    weighting: str = about("how much a reply counts: see fedloom list", "size")
    moment: str = about("when metrics that weigh are read: before or after local training", "after")
    temperature: float = about("of weighting by loss: exp(-loss / temperature)", 1.0)
    exclude: float | None = about("leave out replies so many deviations below the mean, or none", None)
    exclude_by: str = about("what exclude looks at", "validation-accuracy")
    combine: str = about("what is made of the replies: mean, median or trimmed", "mean")
    trim: float = about("share of replies left out at either end of each coordinate, with trimmed", 0.1)
    clip: float | None = about("the largest norm of a reply, to which larger ones are shortened, or none", None)
    topology: str = about(
        "who is whose neighbour, without a server: see fedloom topology; or random-pairs, matcha:torus:0.5", "ring"
    )
    topology_seed: int = about("seed of a random topology, which --seed does not change", 0)
    neighbours: str = about("how neighbours are weighted: metropolis, uniform or optimised", "metropolis")
    period: int = about("τ, steps between two exchanges, without a server", 5)
    lambda1: float = about("λ₁, how strongly related outputs pull each other, with -mtl", 1e-4)
    lambda2: float = about("λ₂, how strongly outputs are pulled to zero, with -mtl", 1e-4)
    lambda3: float = about("λ₃, the same for all other layers but the upper ones", 0.0)
    lambda4: float = about("λ₄, the same for the upper ones", 0.0)
    eta: float = about("how much of the newly found relations counts, with -mtl", 0.5)
    upper: str = about("the upper layers, with -mtl", "")
    peers: int | None = about("others that each averages with, personalised; or all", None, missing="all")
    peers_by: str = about("which: random, or those whose models are nearest", "random")
    mu: float = about("μ, how strongly clients are pulled to the shared model: fedprox, ditto", 0.01)
    private: str = about("layers that are every client's own, comma-separated: fedper, fedrep, -mtl", "output")
    head_epochs: int = about("epochs for a client's own layers alone, with fedrep", 1)
    clusters: int = about("how many models, with ifca", 2)
    q: float = about("how much more clients count for which the model does badly, with qfedavg", 1.0)
    server: str = about("the server's step: average, momentum, adagrad, adam or yogi", "average")
    server_lr: float | None = about(
        "the server's learning rate; usual: 1, adagrad 0.03, adam and yogi 0.01", None, missing="usual"
    )
    server_momentum: float = about("the server's momentum, with server momentum", 0.9)
    compute: str | None = about("seconds a worker takes for a step, by a simulated clock", None, group="Time")
    latency: str = about("seconds that a message is under way", "0", group="Time")
    bandwidth: str | None = about("bytes a second through a worker's link", None, missing="unlimited", group="Time")
    server_bandwidth: float | None = about(
        "bytes a second through the server's", None, missing="unlimited", group="Time"
    )
    lost: float = about("the probability that a worker is lost in a round", 0.0, group="Time")
    deadline: float | None = about("seconds after which nobody waits for an answer any more", None, group="Time")
    late: str = about("who would miss a server's deadline: dropped, or stopped (sends what it has)", "dropped",
                      group="Time")  # fmt: skip
    rounds: int = about("stop after this many rounds", Stop.rounds, group="Stopping")
    target: float | None = about("stop when what is monitored reaches this, or none", Stop.target, group="Stopping")
    patience: int | None = about(
        "stop after this many rounds without improvement, or none", Stop.patience, group="Stopping"
    )
    monitor: str | None = about(
        "what target, patience and keep look at, such as validation_loss or own_test_accuracy; usual: the accuracy on "
        "validation data, or else on test data", Stop.monitor, missing="usual", group="Stopping",
    )  # fmt: skip
    keep: str | None = about(
        "the model of which round is kept: best or last; usual: best with patience, else last", Stop.keep,
        missing="usual", group="Stopping",
    )  # fmt: skip
    seconds: float | None = about("stop after this many seconds, or none", None, group="Stopping")
    until_bytes: float | None = about("stop when so many bytes have been sent, or none", None, group="Stopping")
    until_clock: float | None = about("stop after so many seconds by the simulated clock", None, group="Stopping")
    every: int = about("rounds between evaluations", 1, group="Running")
    evaluate: str = about("parts of the data to evaluate, comma-separated", "train,test", group="Running")
    users: str = about("yes: measure a round's clients before and after their work", "no", group="Running")
    seed: int = about("seed of everything random in the run", 0, group="Running")
    engine: str = about(
        "compiled, in this process; processes or ray, in workers; or reference, a loop", "compiled", group="Engine"
    )
    actors: int | None = about("number of processes, or of actors with ray", None, missing="cores", group="Engine")
    address: str | None = about("host:port of a Ray cluster, or auto", None, missing="this machine", group="Engine")
    pieces: int = about("largest number of parts into which a round is cut, with processes or ray", 16, group="Engine")

    def __new__(cls, *values: Any, **fields: Any) -> Self:
        """Create an experiment that knows which of its fields it is given."""
        experiment = super().__new__(cls)
        positional = [f.name for f in dataclasses.fields(cls)][: len(values)]
        object.__setattr__(experiment, "_given", frozenset([*positional, *fields]))
        return experiment

    @property
    def given(self) -> dict[str, Any]:
        """The fields that were given, also those that were given their default.

        >>> Experiment(model="2nn", epochs=5).given
        {'model': '2nn', 'epochs': 5}
        """
        names: frozenset[str] = self.__dict__["_given"]
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name in names}

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            object.__setattr__(self, f.name, convert(f, getattr(self, f.name)))
        for name in ("split", "model", "inputs", "algorithm", "optimizer", "weighting", "combine", "server",
                     "selection"):  # fmt: skip
            choose(name, getattr(self, name), LISTING[name])
        require(bool(self.data), "data", "a name, a file or a folder", self.data)
        if not is_path("partition", self.partition):
            choose("partition", self.partition, LISTING["partition"])
        for name, choices in (
            ("colours", "rgb grey"),
            ("images", "auto yes no"),
            ("unreadable", "error skip"),
            ("task", "auto classification regression"),
            ("case", "ask same different"),
            ("unlabelled", "error skip"),
            ("pool", "no yes"),
            ("users", "no yes"),
            ("engine", "compiled processes ray reference"),
            ("precision", "float32 bfloat16"),
        ):
            choose(name, getattr(self, name), dict.fromkeys(choices.split()))
        require(self.every >= 1, "every", "at least 1", self.every)
        require(0 <= self.seed < 2**32, "seed", "between 0 and 4294967295", self.seed)
        require(self.data_seed >= 0, "data_seed", "at least 0", self.data_seed)
        require(self.topology_seed >= 0, "topology_seed", "at least 0", self.topology_seed)
        choose("neighbours", self.neighbours, WEIGHTS)
        for split in self.splits:
            choose("evaluate", split, dict.fromkeys(("train", "validation", "test")))
        self._fix()
        self._check_used()
        self.build_algorithm()
        self.build_clock()
        require(self.actors is None or self.actors >= 1, "actors", "at least 1", self.actors)
        require(self.pieces >= 1, "pieces", "at least 1", self.pieces)
        self.stop()

    def _fix(self) -> None:
        """Set the fields that the algorithm determines, or raise an :class:`ArgumentError` if others were given."""
        for name, value in FIXED.get(self.algorithm, {}).items():
            contradicts = name in self.given and getattr(self, name) != value
            shown = "all" if value is None else f"{value:g}"
            require(not contradicts, name, f"{shown} with algorithm {self.algorithm}", getattr(self, name))
            object.__setattr__(self, name, value)

    def _check_used(self) -> None:
        """Raise an :class:`ArgumentError` for a field that was given and would have no effect."""
        choose("exclude_by", self.exclude_by, {name: name for name in LISTING["weighting"] if "-" in name})
        for name, why in useless({name: getattr(self, name) for name in DECIDING}).items():
            self.leave_alone(name, why)

    def leave_alone(self, name: str, why: str) -> None:
        """Raise an :class:`ArgumentError` if a field was given, unless as ``none``, which asks for nothing."""
        [f] = [f for f in dataclasses.fields(self) if f.name == name]
        asks = f.metadata["missing"] != "none" or getattr(self, name) is not None
        require(name not in self.given or not asks, name, f"left alone {why}", getattr(self, name))

    @classmethod
    def from_toml(cls, text: str) -> Experiment:
        """Return an experiment from TOML.

        Fields before the table ``[defaults]`` are given. Those in the table, which a run writes down for the record,
        are given only where they differ from the default.
        """
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ArgumentError("the experiment file", f"TOML ({error})", text.strip()[:60]) from error
        recorded = values.pop("defaults", {})
        require(isinstance(recorded, dict), "defaults", "a table of fields", recorded)
        experiment = cls().replace(**values)
        known = {f.name: f for f in dataclasses.fields(cls)}
        same = {n for n in known.keys() & recorded if convert(known[n], recorded[n]) == getattr(experiment, n)}
        return experiment.replace(**{name: value for name, value in recorded.items() if name not in same})

    @classmethod
    def read(cls, path: Path) -> Experiment:
        """An experiment from a TOML file."""
        if not path.is_file() or path.suffix != ".toml":
            raise ArgumentError("the experiment", "a TOML file that exists (name data with --data)", str(path))
        try:
            return cls.from_toml(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise ArgumentError("the experiment file", f"UTF-8 text ({error})", str(path)) from error

    def replace(self, **changes: Any) -> Experiment:
        """Return the experiment with some more fields given, or given other values."""
        names = {f.name for f in dataclasses.fields(self)}
        for name in changes:
            if name not in names:
                raise UnknownName("a field of an experiment", name, names)
        return Experiment(**{**self.given, **changes})

    def to_toml(self) -> str:
        """Return the experiment as TOML: the fields that were given, then all others in the table ``[defaults]``."""
        given = self.given
        first = [f for f in dataclasses.fields(self) if f.name in given]
        others = [f for f in dataclasses.fields(self) if f.name not in given]
        note = "# Fields that were not given, with the values that they had."
        return "\n".join([*self._lines(first), "", note, "[defaults]", *self._lines(others)]).lstrip() + "\n"

    def _lines(self, fields: Sequence[dataclasses.Field[Any]]) -> list[str]:
        """Return lines of TOML for some fields, under a comment for each group."""
        lines, group = [], None
        for f in fields:
            value = getattr(self, f.name)
            if f.metadata["group"] != group:
                group = f.metadata["group"]
                lines += ["", f"# {group}"]
            shown = json.dumps(f.metadata["missing"] if value is None else value, ensure_ascii=False)
            lines.append(f"{f.name} = {shown}  # {f.metadata['help']}")
        return lines

    def build_task(self, data: FederatedData) -> Task:
        """The task, for the shapes and classes of the data."""
        task = choose("model", self.model, MODELS)(data)
        if self.inputs != "unit":
            good = white(data.columns["x"].dtype) > 0 and self.model not in ("cifar-cnn", "lstm", "lstm-plain")
            needed = f"left alone with {self.model} on {data.name}, which sees no plain pixels"
            require(good, "inputs", needed, self.inputs)
            task = rescaled(task, *INPUTS[self.inputs](data), self.inputs)
        return mixed(task) if self.precision == "bfloat16" else task

    def build_algorithm(self) -> Method:
        """The algorithm."""
        return METHODS[self.algorithm][1](self)

    @property
    def step_arguments(self) -> dict[str, Any]:
        """The arguments of a client's steps."""
        return {"lr": self.lr, "batch_size": self.batch_size, "decay": self.decay, "optimizer": self.optimizer}

    @property
    def along_arguments(self) -> dict[str, Any]:
        """The arguments of an exchange without a server."""
        seed = {"seed": self.topology_seed} if self.topology_seed else {}  # who has no use for one has none
        return {"topology": self.topology, "period": self.period, **seed}

    @property
    def weight_arguments(self) -> dict[str, Any]:
        """The weights of neighbours, if the topology leaves a choice."""
        return {} if changes(self.topology) else {"weights": self.neighbours}

    @property
    def peer_arguments(self) -> dict[str, Any]:
        """The number and the choice of peers."""
        return {} if self.peers is None else {"peers": self.peers, "peers_by": self.peers_by}

    @property
    def work_arguments(self) -> dict[str, Any]:
        """The arguments of a round: who takes part, and what each does."""
        local = sgd(epochs=self.epochs, **self.step_arguments)
        return {"fraction": self.fraction, "selection": self.selection, "local": local}

    @property
    def averaged_arguments(self) -> dict[str, Any]:
        """The arguments of federated averaging."""
        momentum = self.server_momentum if self.server == "momentum" else None
        step = server(self.server, lr=self.server_lr, momentum=momentum)
        return {
            **self.work_arguments,
            "server": step,
            "weighting": self.build_weighting(),
            "combiner": self.build_combiner(),
        }

    @property
    def related_arguments(self) -> dict[str, Any]:
        """The arguments of multi-task learning."""
        lambdas = self.lambda1, self.lambda2, self.lambda3, self.lambda4
        return {"lambdas": lambdas, "eta": self.eta, "output": self.private, "upper": self.upper, **self.step_arguments}

    def build_weighting(self) -> Weighting:
        """How much each reply counts."""
        by = WEIGHTINGS[self.weighting](self.moment, self.temperature)
        if self.exclude is None:
            return by
        on, metric = self.exclude_by.split("-")
        return excluding(self.exclude, by, metric, on, self.moment)

    def build_combiner(self) -> Combiner:
        """What is made of the replies."""
        then = COMBINERS[self.combine](self.trim)
        return then if self.clip is None else clipped(self.clip, then)

    def build_clock(self) -> Clock | None:
        """The clock, if there is one; its machines are those of the data's seed."""
        if self.compute is None:
            return None
        most = float("inf")
        return clock(
            self.compute, latency=self.latency, bandwidth=most if self.bandwidth is None else self.bandwidth,
            server_bandwidth=most if self.server_bandwidth is None else self.server_bandwidth, lost=self.lost,
            deadline=self.deadline, seed=self.data_seed, late=self.late,
        )  # fmt: skip

    def build_engine(self) -> Engine:
        """Return the engine that computes the run."""
        engines: dict[str, Callable[[], Engine]] = {
            "compiled": compiled,
            "processes": lambda: processes(self.actors, pieces=self.pieces),
            "ray": lambda: ray(self.actors, address=self.address, pieces=self.pieces),
            "reference": reference,
        }
        return engines[self.engine]()

    def settings(self) -> Settings:
        """How it is run."""
        return Settings(self.stop(), self.splits, self.every, users=self.users == "yes", clock=self.build_clock())

    def passes(self, data: FederatedData, rounds: int) -> float:
        """How many passes over everybody's data so many rounds amount to."""
        algorithm, sizes = self.build_algorithm(), data.clients["train"].size
        if "period" in METHODS[self.algorithm][0]:
            batches = np.minimum(sizes, self.batch_size or 0)
            return rounds * self.period * int(batches.sum()) / int(sizes.sum())
        each = algorithm.for_clients(len(data), data.client_names).local.batches.all_epochs
        return rounds * algorithm.cohort(len(data)) * float(np.mean(each)) / len(data)

    def centrally(self, passes: int, per_round: float = 1.0) -> Experiment:
        """Return the experiment that trains the same model on the union of all data, in one place.

        The learning rate decays over the same amount of work as in the federation: pass e, counted from 0, has the rate
        that the federation has after e passes, lr · decay^(e / per_round).

        Args:
            passes: the number of passes over the union.
            per_round: the passes over all clients' data that one round of the federation amounts to.

        >>> round(Experiment(decay=0.9).centrally(3, per_round=0.5).decay, 6)  # two rounds a pass
        0.81
        """
        kept = ("batch_size", "lr", "decay", "optimizer", "compute")
        stops = ("target", "patience", "monitor", "keep", "seconds", "until_bytes", "until_clock", "every", "users")
        federated = {f.name for f in dataclasses.fields(self) if f.metadata["group"] in ("Algorithm", "Time")}
        dropped = federated.difference(kept).union(stops)
        same = {name: value for name, value in self.given.items() if name not in dropped}
        if "decay" in same:  # the least number is so small that the second pass has the rate 0
            same["decay"] = max(self.decay ** (1 / per_round), sys.float_info.min)
        return Experiment(**{**same, "algorithm": "central", "rounds": passes})

    @property
    def along(self) -> str | None:
        """The topology along which workers exchange, if there is one."""
        return self.topology if "topology" in METHODS[self.algorithm][0] else None

    def label_on(self, data: str) -> str:
        """What a run of it is called in tables and figures: the model, the data, and how, if not by plain averaging.

        >>> Experiment().label_on("mnist/iid"), Experiment(algorithm="dpa-sgd").label_on("mnist/iid")
        ('2nn, mnist/iid', '2nn, mnist/iid, dpa-sgd, ring')
        """
        how = [] if self.algorithm == "fedavg" else [self.algorithm]
        return ", ".join([self.model, data, *how, *([Path(self.along).name] if self.along else [])])

    def stop(self) -> Stop:
        """When the run has done enough."""
        limits = self.rounds, self.seconds, self.target, self.patience, self.monitor
        return Stop(*limits, until_bytes=self.until_bytes, until_clock=self.until_clock, keep=self.keep)

    @property
    def splits(self) -> tuple[str, ...]:
        """The parts of the data to evaluate."""
        return tuple(listed(self.evaluate))
