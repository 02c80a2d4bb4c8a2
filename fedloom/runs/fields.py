"""Fields: what an experiment's fields mean, and their values from what a file or the command line gave."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import field
from typing import Any

from fedloom.errors import require


def about(text: str, default: Any, *, missing: str = "none", group: str = "Algorithm") -> Any:
    """A field, what it means, and how its absence (``None``) is written in files and on the command line."""
    return field(default=default, metadata={"help": text, "missing": missing, "group": group})


def as_text(value: Any) -> Any:
    """A number, also one that is a text, in its shortest form; anything else as it is.

    >>> as_text(0.10), as_text("0.0"), as_text("uniform:1:2")
    ('0.1', '0', 'uniform:1:2')
    """
    try:
        return f"{float(value):.12g}" if not isinstance(value, bool) else value
    except (TypeError, ValueError):
        return value


def convert(f: dataclasses.Field[Any], value: Any) -> Any:
    """A field's value from what a file or the command line gave.

    >>> @dataclasses.dataclass
    ... class Example:
    ...     batch_size: int | None = about("B, or all", 10, missing="all")
    >>> [f] = dataclasses.fields(Example)
    >>> convert(f, "7"), convert(f, "all")
    (7, None)
    """
    kind, optional = str(f.type).removesuffix(" | None"), str(f.type).endswith("| None")
    if optional and (value is None or value == f.metadata["missing"]):
        return None
    if f.metadata["group"] == "Time" and kind == "str":
        value = as_text(value)
    if kind == "str" and isinstance(value, str):
        return value
    if kind == "int | str":  # a number, or a description of numbers
        if isinstance(value, str) and not value.strip().lstrip("-").isdigit():
            return value
        kind = "int"
    if kind == "int" and isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        number = int(value) if kind == "int" and isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        number = None
    wanted = {"int": "a whole number", "float": "a number", "str": "a text"}[kind]
    wanted += f" or {f.metadata['missing']}" if optional else ""
    good = number is not None and not isinstance(value, bool) and kind != "str" and math.isfinite(number)
    require(good and (kind == "float" or float(number or 0).is_integer()), f.name, wanted, value)
    return int(number or 0) if kind == "int" else number
