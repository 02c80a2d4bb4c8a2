"""Pickled data, read without trusting it: a pickle may name any function to call, here none but stand-ins are."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from fedloom.errors import DataError


class _Dtype:
    """Stands in for ``numpy.dtype``: unsigned bytes or nothing."""

    def __init__(self, name: str | bytes, *_: object) -> None:
        if name not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"an array of {name!r} instead of unsigned bytes")

    def __setstate__(self, state: object) -> None:
        """Bytes have no byte order to set."""


class _Array:
    """Stands in for ``numpy.ndarray``: an array of unsigned bytes."""

    values = np.zeros(0, np.uint8)

    def __setstate__(self, state: tuple[int, tuple[int, ...], _Dtype, bool, bytes]) -> None:
        _, shape, dtype, fortran, raw = state
        if not isinstance(dtype, _Dtype) or not isinstance(raw, bytes):
            raise pickle.UnpicklingError("an array of something else than unsigned bytes")
        self.values = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _encode(text: str, encoding: str) -> bytes:
    """Bytes as Python 3 writes them in the old protocols."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes as text in {encoding!r}")
    return text.encode("latin1")


def _empty() -> bytes:
    """Empty bytes, which Python 3 writes in yet another way."""
    return b""


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _empty,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return ALLOWED[module, name]


def read_dict(raw: bytes, where: str) -> dict[str, Any]:
    """A pickled dictionary of plain values and arrays of unsigned bytes; anything else in it is an error.

    >>> read_dict(pickle.dumps({b"labels": [1, 2]}, protocol=2), "batch")
    {'labels': [1, 2]}
    """
    try:
        pairs = _Unpickler(io.BytesIO(raw), encoding="bytes").load().items()
    except Exception as error:  # a damaged pickle may raise anything
        raise DataError(f"{where} is not a pickled dictionary of plain values and byte arrays ({error})") from error
    names = [key.decode("latin1") if isinstance(key, bytes) else str(key) for key, _ in pairs]
    values = [value.values if isinstance(value, _Array) else value for _, value in pairs]
    return dict(zip(names, values, strict=True))
