"""Kind: how precise a number of a program in bfloat16 must be, by its origin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

LARGEST = float(jnp.finfo(jnp.bfloat16).max)


class Kind(Enum):
    """How precise a number must be, by its origin. All kinds but ``ROUNDED`` are float32.

    Attributes:
        SOURCE: made of parameters, inputs and constants only; it is rounded where it meets a rounded number.
        ROUNDED: bfloat16.
        WIDE: computed element by element from sums or exponentials; the next activation or product rounds it.
        STATISTIC: made of sums, such as the mean of a norm; only a product rounds it.
    """

    SOURCE = "source"
    ROUNDED = "rounded"
    WIDE = "wide"
    STATISTIC = "statistic"


@dataclass(frozen=True)
class Value:
    """An array and its kind; arrays that are not float32 in the user's program are ``SOURCE`` and never change type."""

    array: Any
    kind: Kind


def join(operands: Iterable[Value]) -> Kind:
    """Return the kind of what an element-wise operation makes of its operands."""
    kinds = {v.kind for v in operands}
    if Kind.WIDE in kinds or kinds >= {Kind.ROUNDED, Kind.STATISTIC}:
        return Kind.WIDE
    return next((k for k in (Kind.ROUNDED, Kind.STATISTIC) if k in kinds), Kind.SOURCE)


def constant(array: Any) -> Value:
    """Return a constant without finite numbers that bfloat16 would turn into infinity, such as float32's lowest."""
    if is_float32(array) and np.ndim(array) == 0 and not isinstance(array, jax.core.Tracer):
        array = np.float32(np.clip(array, -LARGEST, LARGEST) if np.isfinite(array) else array)
    elif is_float32(array):
        array = jnp.where(jnp.isfinite(array), jnp.clip(array, -LARGEST, LARGEST), array)
    return Value(array, Kind.SOURCE)


def is_float32(array: Any) -> bool:
    """Return whether an array, or the description of one, is of float32."""
    return getattr(array, "dtype", None) == jnp.float32


def narrow(v: Value) -> Any:
    """Return a number in bfloat16."""
    return lax.convert_element_type(v.array, jnp.bfloat16) if is_float32(v.array) else v.array


def as_declared(v: Value, dtype: Any) -> Any:
    """Return a number in the type that it has in the user's program."""
    return lax.convert_element_type(v.array, dtype) if v.kind is Kind.ROUNDED else v.array
