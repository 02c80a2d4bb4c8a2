"""Activation: what a model does last to its outputs, read from its program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

SHAPING = {"broadcast_in_dim", "convert_element_type", "copy", "optimization_barrier", "reshape", "squeeze"}
"""What changes no number."""


def last(function: Callable[..., Any], *arguments: Any) -> str:
    """``softmax`` or ``sigmoid``, if that is what its first output comes out of.

    >>> x = jax.numpy.zeros(2)
    >>> last(lambda x: 2 * jax.nn.softmax(x), x), last(lambda x: jax.nn.softmax(x)[:, None], x)
    ('', 'softmax')
    """
    program = jax.make_jaxpr(function)(*arguments).jaxpr
    return _last(program, program.outvars[0]) if program.outvars else ""


def _last(program: Jaxpr, variable: Any) -> str:
    step = _source(program, variable)
    if step is None:
        return ""
    inner = [p.jaxpr if isinstance(p, ClosedJaxpr) else p for p in step.params.values()
             if isinstance(p, ClosedJaxpr | Jaxpr)]  # fmt: skip
    if len(inner) == 1:
        return _last(inner[0], inner[0].outvars[step.outvars.index(variable)])
    if step.primitive.name == "logistic":
        return "sigmoid"
    if step.primitive.name != "div":
        return ""
    above, below = (_source(program, v) for v in step.invars)
    parts = [] if below is None else [_source(program, v) for v in below.invars]  # of the sum
    return "softmax" if _is_exp(above) and any(map(_is_exp, parts)) else ""


def _is_exp(step: Any) -> bool:
    return step is not None and step.primitive.name == "exp"


def _source(program: Jaxpr, variable: Any) -> Any:
    """The step that a variable comes from, before it was given another shape; ``None`` if it was given."""
    for step in reversed(program.eqns):
        if any(variable is out for out in step.outvars):
            return _source(program, step.invars[0]) if step.primitive.name in SHAPING else step
    return None
