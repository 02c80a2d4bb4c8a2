"""Schema: the arrays that a file must hold, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

HEADER = 4096  # bytes that the header of a file may take beyond that of a file we write ourselves
TEXT = 200  # characters of what is said about a file, which may hold names as long as itself
KINDS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "C64": "complex64", "BOOL": "bool",
    **{f"{letter}{bits}": f"{kind}{bits}" for letter, kind in (("I", "int"), ("U", "uint"))
       for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""Types by the names that files have for them."""


class Unfit(ValueError):
    """A file that does not hold what it must."""


@dataclass(frozen=True)
class Schema:
    """Names, shapes and types.

    >>> schema = Schema.of({"w": np.zeros((2, 3), np.float32)})
    >>> schema.arrays(schema.content({"w": np.ones((2, 3), np.float32)}))["w"].sum()
    np.float32(6.0)
    """

    fields: tuple[tuple[str, tuple[int, ...], str], ...]

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Schema:
        """That of some arrays."""
        return cls(tuple((name, tuple(a.shape), np.dtype(a.dtype).name) for name, a in sorted(arrays.items())))

    @property
    def most(self) -> int:
        """More bytes than this no file of this schema has."""
        numbers = sum(int(np.prod(shape)) * np.dtype(kind).itemsize for _, shape, kind in self.fields)
        return numbers + HEADER + sum(len(name.encode()) + 200 for name, _, _ in self.fields)

    def content(self, arrays: Mapping[str, np.ndarray]) -> bytes:
        """A file with these arrays."""
        return save({name: np.asarray(arrays[name], order="C") for name, _, _ in self.fields})

    def arrays(self, content: bytes) -> dict[str, np.ndarray]:
        """What a file holds, if that is what it must hold; else :class:`Unfit` says what is wrong."""
        if len(content) > self.most:
            raise Unfit(f"a file of {len(content):,} bytes; the largest has {self.most:,}")
        try:
            found = dict(deserialize(content))
        except SafetensorError as error:
            raise Unfit(f"not a safetensors file ({error})"[:TEXT]) from None
        self._named(found)
        arrays = {}
        for name, shape, kind in self.fields:  # before anything is made of what is there
            there, size = found[name]["dtype"], tuple(found[name]["shape"])
            if KINDS.get(there) != kind or size != shape:
                raise Unfit(f"{name} is {KINDS.get(there, there)} of shape {size}, not {kind} of shape {shape}"[:TEXT])
            arrays[name] = np.frombuffer(found[name]["data"], kind).reshape(shape)
        self.check(arrays)
        return arrays

    def check(self, found: Mapping[str, np.ndarray]) -> None:
        """Raise :class:`Unfit` unless these are the names, shapes and types, and all numbers are finite."""
        self._named(found)
        for name, shape, kind in self.fields:
            array = found[name]
            if array.shape != shape or array.dtype != np.dtype(kind):
                raise Unfit(f"{name} is {array.dtype} of shape {array.shape}, not {kind} of shape {shape}"[:TEXT])
            if array.dtype.kind not in "biu" and not np.isfinite(array).all():  # bfloat16 is not of the kind "f"
                raise Unfit(f"{name} holds numbers that are not finite")

    def _named(self, found: Mapping[str, Any]) -> None:
        wanted = {name for name, _, _ in self.fields}
        if found.keys() != wanted:
            missing, more = sorted(wanted - found.keys()), sorted(found.keys() - wanted)
            raise Unfit((f"it lacks {', '.join(missing)}" if missing else f"it has {', '.join(more)} too")[:TEXT])
