"""Agreement: what a server tells participants of an experiment, and what each takes of the data that it is given."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedloom.cli.shared import FIELDS
from fedloom.data import FederatedData
from fedloom.data.federated import Ranges
from fedloom.data.inputs import has_image_shape
from fedloom.data.target import mean_and_deviation, predicts_numbers
from fedloom.errors import ArgumentError, require
from fedloom.federation.agreement import described
from fedloom.runs.experiment import Experiment

TOLD = ("Model", "Algorithm")  # the groups of an experiment's fields that participants are told


def about(experiment: Experiment, data: FederatedData, blind: bool = False) -> dict[str, Any]:
    """Return what participants are told of an experiment: the model, the algorithm and what data must be like.

    A blind server has no data, and says whether participants' is images only if ``--images`` says it.
    """
    told = {f.name for f in FIELDS if f.metadata["group"] in TOLD}
    given = {name: value for name, value in experiment.given.items() if name in told}
    like = described(data)
    if blind and experiment.images == "auto":
        del like["images"]
    return {"experiment": given, **like}


def built(said: Mapping[str, Any], data: FederatedData) -> tuple[Any, Any]:
    """The task and the algorithm of what a server says; only the fields that it may say."""
    allowed = {f.name for f in FIELDS if f.metadata["group"] in TOLD}
    wrong = sorted(said.get("experiment", {}).keys() - allowed)
    if wrong:
        raise ArgumentError("the server's experiment", "about the model and the algorithm", ", ".join(wrong))
    experiment = Experiment().replace(**said["experiment"])
    like = dataclasses.replace(data, classes=int(said["classes"]), class_names=tuple(said["class_names"]))
    return experiment.build_task(like), experiment.build_algorithm()


def owned(own: Experiment, part: int | None) -> Experiment:
    """What says whose examples a participant has: all are its own, unless it is one client of a partition."""
    if part is not None:
        return own
    for name, allowed in (("partition", ("auto", "iid")), ("clients", (1,))):
        need = "left alone without --part: a participant is one client"
        require(name not in own.given or getattr(own, name) in allowed, name, need, getattr(own, name))
    return own.replace(partition="iid", clients=1)


def undealt(experiment: Experiment) -> Experiment:
    """The same with its data in one piece, unless it says how data is dealt: the server only judges models on it."""
    return experiment.replace(partition="iid", clients=1) if experiment.partition in ("auto", "iid") else experiment


def judging(experiment: Experiment, data: FederatedData) -> FederatedData:
    """A server's data, all of which models are judged on, unless it comes with a test set or says how it is split."""
    told = {"split", "test_share", "validation_share"} & experiment.given.keys()
    if len(data) > 1 or "test" not in data.clients or told:
        return data
    n, nobody = len(data.columns["y"]), {"train": Ranges(np.zeros(1, np.int32), np.ones(1, np.int32))}
    columns = {name: np.concatenate([a, a[:1]]) for name, a in data.columns.items()}  # a client has to have an example
    index, central = np.array([n], data.index.dtype), {"test": np.sort(data.index)}
    scale = mean_and_deviation(columns["y"][:n]) if predicts_numbers(data) else None
    return dataclasses.replace(data, columns=columns, index=index, clients=nobody, central=central, target_scale=scale)


def mine(data: FederatedData, part: int | None) -> FederatedData:
    """One participant's data: all of it, or one client's part of it, to try things out."""
    if part is None:
        return data
    require(0 <= part < len(data), "part", f"between 0 and {len(data) - 1}", part)
    return data.alone(part)


def blank(experiment: Experiment, shape: str | None, classes: str | None) -> FederatedData:
    """What a server without data knows of it: the shape of an example, and the classes."""
    if shape is None or classes is None:
        raise ArgumentError("shape and classes", "given together, for a server without data", (shape, classes))
    need = "auto or classification for a server without data, which does not know the scale of numbers"
    require(experiment.task != "regression", "task", need, experiment.task)
    sizes = tuple(int(n) for n in shape.split(",") if n.strip().isdigit())
    require(len(sizes) > 0, "shape", "whole numbers between commas: 28,28", shape)
    names = [] if classes.isdigit() else [name.strip() for name in classes.split(",")]
    many = int(classes) if classes.isdigit() else len(names)
    images = has_image_shape(sizes) if experiment.images == "auto" else experiment.images == "yes"
    columns = {"x": np.zeros((1, *sizes), np.uint8 if images else np.float32), "y": np.zeros(1, np.int32)}
    one = {"train": Ranges(np.zeros(1, np.int32), np.ones(1, np.int32))}
    return FederatedData(experiment.data, columns, many, np.zeros(1, np.int32), one, {}, class_names=tuple(names),
                         images=images)  # fmt: skip
