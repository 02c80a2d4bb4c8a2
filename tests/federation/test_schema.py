import json

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from fedloom.federation.schema import HEADER, Schema, Unfit

ARRAYS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "n": np.array([1, 2], np.int32),
    "b": np.array(3, np.float32),
}
SCHEMA = Schema.of(ARRAYS)


def test_what_is_written_is_read() -> None:
    found = SCHEMA.arrays(SCHEMA.content(ARRAYS))
    assert found.keys() == ARRAYS.keys()
    assert all(np.array_equal(found[name], ARRAYS[name]) and found[name].shape == ARRAYS[name].shape for name in found)


@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16", "int8", "uint32", "bool"])
def test_every_type_is_read(kind: str) -> None:
    arrays = {"x": np.asarray(jnp.array([0, 1]).astype(kind)) if kind != "float64" else np.array([0.0, 1.0])}
    schema = Schema.of(arrays)
    assert np.array_equal(schema.arrays(schema.content(arrays))["x"], arrays["x"])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, jnp.bfloat16])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_found_in_every_type(kind: type, value: float) -> None:
    arrays = {"x": np.array([0, value], kind)}
    schema = Schema.of(arrays)
    with pytest.raises(Unfit, match="x holds numbers that are not finite"):
        schema.arrays(schema.content(arrays))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"w": np.zeros((3, 2), np.float32)}, r"w is float32 of shape \(3, 2\), not float32 of shape \(2, 3\)"),
        ({"w": np.zeros((2, 3), np.float64)}, "w is float64"),
        ({"n": np.zeros(2, np.float32)}, "n is float32"),
        ({"b": np.zeros(1, np.float32)}, r"of shape \(1,\)"),
        ({"x" * 3000: np.zeros(1, np.float32)}, "it has xxx"),
    ],
)
def test_what_does_not_fit_is_refused_in_few_words(changed: dict[str, np.ndarray], why: str) -> None:
    with pytest.raises(Unfit, match=why) as caught:
        SCHEMA.arrays(save({**ARRAYS, **changed}))
    assert len(str(caught.value)) <= 200


def test_what_is_missing_is_named() -> None:
    with pytest.raises(Unfit, match="it lacks b, w"):
        SCHEMA.arrays(save({"n": ARRAYS["n"]}))


def test_a_file_that_is_too_large_is_not_even_read() -> None:
    with pytest.raises(Unfit, match="the largest has"):
        SCHEMA.arrays(bytes(SCHEMA.most + 1))


def headed(header: object, data: int = 36) -> bytes:
    content = json.dumps(header).encode()
    return len(content).to_bytes(8, "little") + content + bytes(data)


def test_what_a_header_says_is_not_repeated_at_length() -> None:
    field = {"dtype": "A" * (HEADER - 500), "shape": [2, 3], "data_offsets": [0, 24]}
    with pytest.raises(Unfit, match="not a safetensors file") as caught:
        SCHEMA.arrays(headed({"w": field}))
    assert len(str(caught.value)) <= 200


@pytest.mark.parametrize("shape", [[0, 2**64 - 1], [2**63, 0], [2**64, 1], [-1], [1.5], [[2]], "23"])
def test_shapes_that_cannot_be_are_refused(shape: object) -> None:
    fields = {"b": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
              "n": {"dtype": "I32", "shape": [2], "data_offsets": [4, 12]},
              "w": {"dtype": "F32", "shape": shape, "data_offsets": [12, 12]}}  # fmt: skip
    with pytest.raises(Unfit):
        SCHEMA.arrays(headed(fields, 12))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=8)), max_size=4), st.integers(0, 400))
def test_any_file_is_one_that_fits_or_unfit(changes: list[tuple[int, bytes]], cut: int) -> None:
    content = bytearray(SCHEMA.content(ARRAYS))
    for at, new in changes:
        content[at : at + len(new)] = new
    try:
        found = SCHEMA.arrays(bytes(content[: len(content) - cut] if cut < 20 else content))
        assert {name: (a.shape, a.dtype.name) for name, a in found.items()} == {n: (s, k) for n, s, k in SCHEMA.fields}
    except Unfit as error:
        assert len(str(error)) <= 300
