"""Checksum: files that hold their own SHA-256, so that damage is found when they are read.

The checksum stands in the file under the name ``file_sha256``: as an entry of a JSON object, or of the metadata of a
safetensors file, which other readers ignore. It is the SHA-256 of the whole file with 64 zeros in the checksum's place.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

KEY, ZEROS = "file_sha256", "0" * 64
ENTRY = re.compile(rb'"file_sha256": ?"([0-9a-f]{64})"')


class Damaged(ValueError):
    """A content that is not what was written; the message says how that was found, without a file's name."""


def json_content(values: Mapping[str, Any]) -> bytes:
    """Return a JSON object as text with its checksum.

    >>> read_json(json_content({"round": 3}))
    {'round': 3}
    """
    return _signed((json.dumps({**values, KEY: ZEROS}, indent=1) + "\n").encode())


def read_json(content: bytes) -> dict[str, Any]:
    """Return the JSON object of a text that :func:`json_content` made.

    Raises:
        Damaged: if any byte differs from what was written.
    """
    _check(content)
    values: dict[str, Any] = json.loads(content)
    del values[KEY]
    return values


def arrays_content(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """Return arrays and metadata as a safetensors file with its checksum."""
    dense = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return _signed(save(dense, metadata={**metadata, KEY: ZEROS}))


def read_arrays(content: bytes) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the arrays and the metadata of a file that :func:`arrays_content` made.

    Raises:
        Damaged: if any byte differs from what was written.
    """
    try:
        arrays = load(content)
    except SafetensorError as error:
        raise Damaged(f"it is truncated or damaged ({error})") from error
    _check(content)
    metadata: dict[str, str] = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    del metadata[KEY]
    return arrays, metadata


def _signed(content: bytes) -> bytes:
    """Fill the checksum in."""
    start, end = _place(content)
    return content[:start] + hashlib.sha256(content).hexdigest().encode() + content[end:]


def _check(content: bytes) -> None:
    start, end = _place(content)
    digest = hashlib.sha256(content[:start])
    digest.update(ZEROS.encode())
    digest.update(memoryview(content)[end:])
    if digest.hexdigest().encode() != content[start:end]:
        raise Damaged("it is damaged: its checksum does not match")


def _place(content: bytes) -> tuple[int, int]:
    """Where the checksum stands: the first entry of its name."""
    found = ENTRY.search(content)
    if found is None:
        raise Damaged("it is damaged, or this version of fedloom did not write it: it holds no checksum")
    return found.span(1)
