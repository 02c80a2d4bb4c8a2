"""Memory: how many bytes a function computes, told without running it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.extend.core import Var

if TYPE_CHECKING:
    from jaxtyping import PyTree


def footprint(function: Callable[..., PyTree], *arguments: Any) -> int:
    """The bytes of everything that a function computes on its way.

    >>> footprint(lambda x: (x + 1) * 2 - x, jax.ShapeDtypeStruct((10,), np.float32))
    120
    """
    return _all(jax.make_jaxpr(function)(*arguments).jaxpr)


def peak(function: Callable[..., PyTree], *arguments: Any) -> int:
    """The most bytes that a function has computed and still needs, if it computes in the order it is written in.

    >>> peak(lambda x: ((x + 1) * 2) - x, jax.ShapeDtypeStruct((10,), np.float32))
    80
    """
    return _peak(jax.make_jaxpr(function)(*arguments).jaxpr)


def _all(jaxpr: Any) -> int:
    own = sum(_bytes(v) for equation in jaxpr.eqns for v in equation.outvars)
    return own + sum(_all(inner) for equation in jaxpr.eqns for inner in _inner(equation))


def _peak(jaxpr: Any) -> int:
    last = {v: i for i, equation in enumerate(jaxpr.eqns) for v in equation.invars if isinstance(v, Var)}
    last |= {v: len(jaxpr.eqns) for v in jaxpr.outvars if isinstance(v, Var)}
    live = most = 0
    made: dict[Any, int] = {}
    for i, equation in enumerate(jaxpr.eqns):
        made |= {v: _bytes(v) for v in equation.outvars}
        live += sum(_bytes(v) for v in equation.outvars)
        most = max(most, live + max((_peak(inner) for inner in _inner(equation)), default=0))
        over = [v for v in made if last.get(v, i) <= i]
        live -= sum(made.pop(v) for v in over)
    return most


def _bytes(variable: Any) -> int:
    return int(np.prod(variable.aval.shape)) * getattr(variable.aval.dtype, "itemsize", 4)


def _inner(equation: Any) -> Iterator[Any]:
    for value in equation.params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            closed = getattr(item, "jaxpr", item)
            if hasattr(closed, "eqns"):
                yield closed
