"""Model: the final model as a safetensors file that any framework reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.data.checksum import Damaged, arrays_content, read_arrays
from fedloom.data.files import replacing
from fedloom.errors import DataError
from fedloom.tasks import Variables
from fedloom.trees import flatten

FORMAT = "fedloom model 2"


def save(file: Path, variables: Variables, about: Mapping[str, str] | None = None) -> None:
    """Write a model: each array under its dotted name, such as ``params.hidden1.w``.

    Args:
        file: the file to write.
        variables: the model.
        about: entries for the file's metadata, such as the round.
    """
    content = arrays_content(flatten(variables), {**(about or {}), "format": FORMAT})
    with replacing(file) as fresh:
        fresh.write_bytes(content)


def load(file: Path) -> Variables:
    """Return a model that :func:`save` wrote, as nested dictionaries of NumPy arrays."""
    return read(file)[0]


def read(file: Path) -> tuple[Variables, dict[str, str]]:
    """Return a model that :func:`save` wrote, and the file's metadata.

    Raises:
        DataError: if the file is missing, is damaged, or holds no checksum.
    """
    if not file.is_file():
        raise DataError(f"{file} is missing: it is written when a run stops")
    try:
        arrays, about = read_arrays(file.read_bytes())
    except Damaged as error:
        raise DataError(f"{file} cannot be used: {error}") from error
    return nested(arrays.items()), about


def nested(arrays: Iterable[tuple[str, np.ndarray]]) -> Variables:
    """Return arrays with dotted names as a model of nested dictionaries."""
    tree: dict[str, Any] = {"params": {}, "state": {}}
    for name, array in arrays:
        _insert(tree, name.split("."), array)
    return Variables(tree["params"], tree["state"])


def _insert(tree: dict[str, Any], path: list[str], array: np.ndarray) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = array
