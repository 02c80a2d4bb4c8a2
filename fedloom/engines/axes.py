"""Axes: a function of one thing, over many side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from fedloom.trees import member


def over(size: int, function: Callable[..., Any], mapped: list[bool]) -> Callable[..., Any]:
    """The function over a leading axis of the mapped arguments.

    An axis of length one is taken off and put back rather than vectorised over: a compiler finds its fast matrix
    products only without it.
    """
    if size > 1:
        return jax.vmap(function, in_axes=[0 if m else None for m in mapped], axis_size=size)

    def alone(*arguments: Any) -> Any:
        taken = [member(a, 0) if m else a for a, m in zip(arguments, mapped, strict=True)]
        return jax.tree.map(lambda a: a[None], function(*taken))

    return alone
