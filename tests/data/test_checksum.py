"""Checksums: any byte that differs from what was written is found."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load

from fedloom.data.checksum import Damaged, arrays_content, json_content, read_arrays, read_json

VALUES = {"label": 'a "file_sha256": "b"', "rows": [{"round": 3, "loss": 0.1}]}
ARRAYS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3).T, "n": np.array(7)}


def flips(content: bytes) -> list[bytes]:
    """The content with each bit flipped in turn."""
    return [content[:i] + bytes([content[i] ^ 1 << bit]) + content[i + 1 :] for i in range(len(content))
            for bit in range(8)]  # fmt: skip


def test_json_comes_back_and_any_flipped_bit_is_found() -> None:
    content = json_content(VALUES)
    assert read_json(content) == VALUES
    assert json.loads(content)["label"] == VALUES["label"]
    for damaged in flips(content):
        with pytest.raises(Damaged):
            read_json(damaged)


def test_arrays_come_back_and_any_flipped_bit_is_found() -> None:
    content = arrays_content(ARRAYS, {"about": json.dumps(VALUES)})
    arrays, metadata = read_arrays(content)
    assert {name: a.tolist() for name, a in arrays.items()} == {"w": [[0, 3], [1, 4], [2, 5]], "n": 7}
    assert metadata == {"about": json.dumps(VALUES)}
    assert load(content).keys() == ARRAYS.keys()  # as any other reader of safetensors
    for damaged in flips(content):
        with pytest.raises(Damaged):
            read_arrays(damaged)


@given(st.integers(0, 400), st.binary(max_size=3))
def test_a_content_that_was_cut_or_grew_is_found(keep: int, more: bytes) -> None:
    for content, read in ((json_content(VALUES), read_json), (arrays_content(ARRAYS, {}), read_arrays)):
        changed = content[:keep] + more
        if changed != content:
            with pytest.raises(Damaged):
                read(changed)


def test_what_another_program_wrote_is_refused() -> None:
    with pytest.raises(Damaged, match="it holds no checksum"):
        read_json(b"{}")
