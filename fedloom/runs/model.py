"""Model: the final model as a safetensors file that any framework reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file
from safetensors.numpy import save as to_bytes

from fedloom.data.files import replacing
from fedloom.errors import DataError
from fedloom.tasks import Variables
from fedloom.trees import flatten


def save(file: Path, variables: Variables) -> None:
    """Write a model: each array under its dotted name, such as ``params.hidden1.w``."""
    with replacing(file) as fresh:
        fresh.write_bytes(to_bytes(flatten(variables), metadata={"format": "fedloom model 1"}))


def load(file: Path) -> Variables:
    """A model that was written, as nested dictionaries of NumPy arrays."""
    if not file.is_file():
        raise DataError(f"{file} is missing: it is written when a run stops")
    tree: dict[str, Any] = {"params": {}, "state": {}}
    for name, array in load_file(file).items():
        _insert(tree, name.split("."), array)
    return Variables(tree["params"], tree["state"])


def _insert(tree: dict[str, Any], path: list[str], array: np.ndarray) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = array
