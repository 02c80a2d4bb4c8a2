"""Agreement: what the data of a server and its participants must have alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedloom.data import FederatedData
from fedloom.data.features import of_json
from fedloom.data.target import predicts_numbers, target_scale
from fedloom.errors import DataError, require, warn


def described(data: FederatedData) -> dict[str, Any]:
    """Return what participants are told of a server's data: its classes, whether it is images, and of a table its
    columns and their scale.
    """
    features = {"features": data.features.to_json()} if data.features else {}
    scale = {"target_scale": list(target_scale(data))} if predicts_numbers(data) else {}
    classes = {"classes": data.classes, "class_names": list(data.class_names)}
    return {**classes, "images": bool(data.images), **features, **scale}


def aligned(said: Mapping[str, Any], data: FederatedData) -> FederatedData:
    """Return a participant's data with its classes numbered, and a table's columns ordered and scaled, as the server
    does; data that is images on one side only is refused, for models would see other numbers.
    """
    if "images" in said and said["images"] != bool(data.images):
        there, here = ("images", "no images") if said["images"] else ("no images", "images")
        raise DataError(
            f"{data.name} is {here} ({data.inputs}), but the server's data is {there}: declare both alike, with "
            f"--images {'yes' if said['images'] else 'no'} here or the other there"
        )
    data = _scaled(said, data)
    if "classes" in said:
        data = renamed(data, said.get("class_names", []), int(said["classes"]))
    if not data.features:
        return data
    if "features" not in said:
        text = "the server has no table of its own, so the order, mean and scale of columns are those of this one"
        warn(f"{text}: have them alike everywhere")
        return data
    theirs = of_json(said["features"])
    x = data.features.moved(data.columns["x"], theirs, data.name)
    return dataclasses.replace(data, columns={**data.columns, "x": x}, features=theirs)


def _scaled(said: Mapping[str, Any], data: FederatedData) -> FederatedData:
    """Return a participant's data with the scale of the numbers to be predicted that the server uses."""
    scale = said.get("target_scale")
    if "classes" in said and predicts_numbers(data) != (scale is not None):
        theirs, option = ("numbers", "regression") if scale is not None else ("classes", "classification")
        raise DataError(f"the server predicts {theirs}, but {data.name} has other labels: say --task {option}")
    if scale is None:
        return data
    good = len(scale) == 2 and bool(np.isfinite(scale).all()) and scale[1] > 0
    require(good, "the server's target_scale", "a mean and a deviation above 0", str(scale)[:200])
    return dataclasses.replace(data, target_scale=(float(scale[0]), float(scale[1])))


def renamed(data: FederatedData, names: Sequence[str], classes: int) -> FederatedData:
    """The same data with its classes numbered by the server's names."""
    if not names and 0 < len(data.class_names) < classes:
        has = f"{data.name} has {len(data.class_names):,} of {classes:,} classes"
        raise DataError(f"{has}, whose names the server must tell (--classes cat,dog)")
    if not names or not data.class_names or list(names) == list(data.class_names):
        require(data.classes <= classes, "data", f"of the server's {classes:,} classes", f"{data.classes:,} classes")
        return dataclasses.replace(data, classes=classes)
    unknown = [name for name in data.class_names if name not in names]
    if unknown:
        raise DataError(f"{data.name} has classes that the server does not know: {', '.join(map(str, unknown))}")
    number = np.array([names.index(name) for name in data.class_names], data.columns["y"].dtype)
    columns = {**data.columns, "y": number[data.columns["y"]]}
    return dataclasses.replace(data, columns=columns, classes=classes, class_names=tuple(names))
