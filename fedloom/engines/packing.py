"""Packing: trees of arrays as bytes, to be sent between processes without pickle."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import jax
import numpy as np
from safetensors.numpy import load, save

from fedloom.algorithms.method import ClientStates, RoundState
from fedloom.engines.lanes import Total
from fedloom.errors import FedloomError
from fedloom.local import Sent
from fedloom.tasks.task import Variables

RECORDS = {kind.__name__: kind for kind in (ClientStates, RoundState, Sent, Total, Variables)}
"""The records that a tree may contain."""
LENGTH = 8  # bytes of the length of the description, which comes first


def pack(tree: Any) -> bytes:
    """Return a tree of numbers, texts, arrays, dictionaries, lists, tuples and records as bytes.

    >>> unpack(pack({"a": (1, [np.arange(2)]), "b": None}))
    {'a': (1, [array([0, 1])]), 'b': None}
    """
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(_described(tree, arrays)).encode()
    return len(text).to_bytes(LENGTH, "little") + text + save(arrays)


def unpack(content: bytes) -> Any:
    """Return the tree that :func:`pack` has packed."""
    size = int.from_bytes(content[:LENGTH], "little")
    return _built(json.loads(content[LENGTH : LENGTH + size]), load(content[LENGTH + size :]))


def _described(node: Any, arrays: dict[str, np.ndarray]) -> Any:
    inner = lambda child: _described(child, arrays)  # noqa: E731
    if node is None or isinstance(node, bool | int | float | str):
        return {"value": node}
    if isinstance(node, np.ndarray | np.generic | jax.Array):
        name = str(len(arrays))
        arrays[name] = np.array(node, order="C")
        return {"array": name}
    if isinstance(node, dict):
        return {"dict": {name: inner(child) for name, child in node.items()}}
    if type(node) in (list, tuple):
        return {type(node).__name__: [inner(child) for child in node]}
    if is_dataclass(node) and type(node).__name__ in RECORDS:
        return {"record": type(node).__name__, "fields": {f.name: inner(getattr(node, f.name)) for f in fields(node)}}
    raise FedloomError(f"{type(node).__name__} cannot be sent to another process")


def _built(node: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    if "value" in node:
        return node["value"]
    if "array" in node:
        return arrays[node["array"]]
    if "record" in node:
        return RECORDS[node["record"]](**{name: _built(child, arrays) for name, child in node["fields"].items()})
    if "dict" in node:
        return {name: _built(child, arrays) for name, child in node["dict"].items()}
    kind = list if "list" in node else tuple
    return kind(_built(child, arrays) for child in node[kind.__name__])
