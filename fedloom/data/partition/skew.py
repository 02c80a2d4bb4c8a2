"""Feature skew: clients who see the same things differently, on top of any partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import ndimage

from fedloom.data.inputs import white
from fedloom.data.partition.partition import Columns, Partition
from fedloom.errors import DataError, number, require

Change = Callable[[Columns, np.ndarray, np.random.Generator], Columns]


def noisy(scheme: Partition, level: float = 0.1) -> Partition:
    """Add Gaussian noise of deviation level·k/(K - 1) to the inputs of client k of K: none for the first, all of it for
    the last (Li et al. 2022, "noise-based feature imbalance"). Pixels count from 0 to 1 and stay there. Examples of no
    client do not change. A single client would see no noise, so it is refused.

    >>> from fedloom.data.partition.iid import iid
    >>> noisy(iid(10), level=0.3).skew
    '+noise0.3'
    """
    number("level", level, "at least 0", lambda level: level >= 0)

    def change(columns: Columns, owner: np.ndarray, rng: np.random.Generator) -> Columns:
        x = columns["x"].copy()
        most = white(x.dtype)
        if not most and x.dtype.kind != "f":
            raise DataError(
                f"only images and floats can be noisy, but an example is {x.shape[1:]} integers, such as text: store "
                "measurements as floats"
            )
        clients = int(owner.max()) + 1
        need = "left alone with one client: client k of K sees noise · k/(K - 1), which is none for the first"
        require(clients > 1, "noise", need, level)
        deviation = (level * np.maximum(owner, 0) / (clients - 1)).reshape(-1, *[1] * (x.ndim - 1))
        for start in range(0, len(x), 4096):
            block, scale = x[start : start + 4096], deviation[start : start + 4096]
            noise = scale * rng.standard_normal(block.shape, dtype=np.float32)
            x[start : start + 4096] = np.clip(np.round(block + most * noise), 0, most) if most else block + noise
        return {**columns, "x": x}

    return replace(scheme, skew=f"{scheme.skew}+noise{level:g}", change=_after(scheme, change))


def rotated(scheme: Partition, degrees: float = 90.0) -> Partition:
    """Turn the images of client k by k·degrees (modulo 360), about their middle. Examples of no client do not change. A
    single client would see no turn, so it is refused, as is a multiple of 360 degrees.

    >>> from fedloom.data.partition.iid import iid
    >>> rotated(iid(4), degrees=90).skew
    '+rotation90'
    """
    number("degrees", degrees, "no multiple of 360, which turns nothing", lambda degrees: degrees % 360 != 0)

    def change(columns: Columns, owner: np.ndarray, rng: np.random.Generator) -> Columns:  # noqa: ARG001
        x = columns["x"].copy()
        if x.ndim not in (3, 4):
            raise DataError(f"only images can be rotated, but an example has the shape {x.shape[1:]}")
        need = "left alone with one client: client k is turned by k times so many degrees, the first by none"
        require(int(owner.max()) > 0, "rotation", need, degrees)
        angles = np.where(owner >= 0, owner * degrees % 360, 0)
        for angle in np.unique(angles[angles != 0]):
            rows = np.flatnonzero(angles == angle)
            turns = angle / 90
            if turns.is_integer() and x.shape[1] == x.shape[2]:
                x[rows] = np.rot90(x[rows], int(turns), axes=(1, 2))
            else:
                x[rows] = ndimage.rotate(x[rows], angle, axes=(2, 1), reshape=False, order=1)
        return {**columns, "x": x}

    return replace(scheme, skew=f"{scheme.skew}+rotation{degrees:g}", change=_after(scheme, change))


def _after(scheme: Partition, change: Change) -> Change:
    """A change after the one that the scheme makes already."""
    before = scheme.change
    if before is None:
        return change
    return lambda columns, owner, rng: change(before(columns, owner, rng), owner, rng)
