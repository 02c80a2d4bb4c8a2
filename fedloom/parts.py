"""Parts: checks and descriptions of the classes that methods are made of, also of users' own."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from fedloom.errors import require


def check_defines(part: Any, argument: str, base: type, *names: str) -> None:
    """Raise an :class:`ArgumentError` if the class of a part lacks a function that fedloom calls.

    Args:
        part: the part.
        argument: the name of the argument that the part was given for.
        base: the class whose functions only raise ``NotImplementedError``.
        names: the functions that are needed.
    """
    for name in names:
        is_defined = getattr(type(part), name) is not getattr(base, name)
        require(is_defined, argument, f"a class that defines `{name}`", type(part).__name__)


def numbers_of(part: Any) -> dict[str, Any]:
    """Return the fields of a part that are single numbers or texts, by name.

    >>> from fedloom.trees import record
    >>> @record
    ... class Half:
    ...     share: float = 0.5
    >>> numbers_of(Half())
    {'share': 0.5}
    """
    found = {f.name: getattr(part, f.name) for f in fields(part)}
    texts = {name: value for name, value in found.items() if isinstance(value, str)}
    return texts | {name: float(value) for name, value in found.items() if is_number(value)}


def is_number(value: Any) -> bool:
    """Return True for a single number, also as an array without axes."""
    return not isinstance(value, str) and hasattr(value, "__float__") and np.ndim(value) == 0
