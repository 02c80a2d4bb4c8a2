"""Rounding: how each simple operation of a program in bfloat16 is done, by the kinds of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedloom.tasks.kind import Kind, Value, as_declared, is_float32, join, narrow

Equation = Any  # of a jaxpr

PRODUCTS = {"attention", "conv_general_dilated", "dot_general"}
ACTIVATIONS = {"clamp", "erf", "erfc", "gelu", "logistic", "max", "min", "tanh"}
ELEMENTWISE = ACTIVATIONS | {
    "abs", "add", "add_any", "ceil", "div", "floor", "integer_pow", "mul", "neg", "round", "sign", "square", "sub",
}  # fmt: skip
SHAPING = {
    "broadcast_in_dim", "concatenate", "copy", "copy_p", "dynamic_slice", "dynamic_update_slice", "expand_dims",
    "gather", "name", "pad", "reduce_window_max", "reshape", "rev", "select_n", "sharding_constraint", "slice", "split",
    "squeeze", "stop_gradient", "transpose",
}  # fmt: skip
"""Operations that move numbers and change none."""
COMPARISONS = {"eq", "ge", "gt", "le", "lt", "ne"}
REDUCTIONS = {"reduce_max", "reduce_min", "reduce_prod", "reduce_sum"}


def widened(equation: Equation, operands: list[Value]) -> list[Any]:
    """Return the operands in the types that they have in the user's program."""
    return [as_declared(v, i.aval.dtype) for v, i in zip(operands, equation.invars, strict=True)]


def bind(equation: Equation, inputs: list[Any], **changed: Any) -> list[Any]:
    """Do an operation, with some parameters changed."""
    params = equation.primitive.get_bind_params({**equation.params, **changed})
    functions, params = params if isinstance(params, tuple) else ((), params)  # the former before JAX 0.10
    with equation.ctx.manager:
        found = equation.primitive.bind(*functions, *inputs, **params)
    return list(found) if equation.primitive.multiple_results else [found]


def values(equation: Equation, arrays: Sequence[Any], kind: Kind) -> list[Value]:
    """Return results; those that are not float32 in the user's program are left as they are.

    ``ROUNDED`` ones are rounded if they are not yet.
    """
    found = []
    for array, out in zip(arrays, equation.outvars, strict=True):
        mine = Value(array, kind) if is_float32(out.aval) else Value(array, Kind.SOURCE)
        found.append(Value(narrow(mine), kind) if mine.kind is Kind.ROUNDED else mine)
    return found


def in_float32(equation: Equation, operands: list[Value]) -> list[Value]:
    """Do an operation in float32. What it makes of rounded numbers is wide."""
    kind = join(operands)
    kind = Kind.WIDE if kind is Kind.ROUNDED or reads_other_floats(equation) else kind
    return values(equation, bind(equation, widened(equation, operands)), kind)


def reads_other_floats(equation: Equation) -> bool:
    """Return whether an operation takes floats that are not float32, which the user has chosen."""
    types = [v.aval.dtype for v in equation.invars if hasattr(v.aval, "dtype")]
    return any(jnp.issubdtype(t, jnp.floating) and t != jnp.float32 for t in types)


def _product(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:
    """Round the operands of a product; products that sum nothing up are element-wise, and those of which the user asks
    for the highest precision get it.
    """
    types = {v.aval.dtype for v in (*equation.invars[:2], *equation.outvars)}
    chosen = set(jax.tree.leaves(equation.params.get("precision"))) - {lax.Precision.DEFAULT, lax.Precision.HIGH}
    if types != {jnp.dtype(jnp.float32)} or chosen:
        return in_float32(equation, operands)
    name = equation.primitive.name
    if name == "dot_general":
        axes = equation.params["dimension_numbers"][0][0]
        if np.prod([equation.invars[0].aval.shape[a] for a in axes]) == 1:
            return _elementwise(equation, operands, wide)
    if name == "attention":  # whose bias belongs to its softmax
        arrays = [narrow(v) for v in operands[:3]] + widened(equation, operands)[3:]
        return values(equation, bind(equation, arrays), Kind.ROUNDED)
    changed = {"precision": None, "preferred_element_type": jnp.dtype(jnp.bfloat16)}
    return values(equation, bind(equation, [narrow(v) for v in operands], **changed), Kind.ROUNDED)


def _elementwise(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:
    """Do an element-wise operation in the type of its operands.

    Single numbers are not rounded: 1.1 times a rounded number is rounded once. What is only added up is not rounded.
    """
    kind = join(operands)
    if kind is Kind.ROUNDED and all(wide):
        kind = Kind.WIDE
    elif kind is Kind.ROUNDED and not any(map(is_uneven, operands)):
        types = (
            {"preferred_element_type": jnp.dtype(jnp.bfloat16)} if "preferred_element_type" in equation.params else {}
        )
        return values(equation, bind(equation, [narrow(v) for v in operands], **types), kind)
    elif kind is Kind.WIDE and equation.primitive.name in ACTIVATIONS and not all(wide):
        kind = Kind.ROUNDED
    return values(equation, bind(equation, widened(equation, operands)), kind)


def is_uneven(v: Value) -> bool:
    """Return whether a value is a single number that bfloat16 does not hold exactly, or may not."""
    if v.kind is not Kind.SOURCE or not is_float32(v.array) or np.ndim(v.array) > 0:
        return False
    return isinstance(v.array, jax.core.Tracer) or not np.array_equal(
        np.asarray(v.array), np.asarray(v.array).astype(jnp.bfloat16).astype(np.float32), equal_nan=True
    )


def _shaping(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:
    """Move numbers, in the type that all of them have."""
    kind = join(operands)
    kind = Kind.WIDE if kind is Kind.ROUNDED and all(wide) and len(operands) > 1 else kind
    arrays = [narrow(v) for v in operands] if kind is Kind.ROUNDED else widened(equation, operands)
    return values(equation, bind(equation, arrays), kind)


def _barrier(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:  # noqa: ARG001
    found = bind(equation, [v.array for v in operands])
    return [Value(a, v.kind) for a, v in zip(found, operands, strict=True)]


def _comparison(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:  # noqa: ARG001
    alike = {v.kind for v in operands} == {Kind.ROUNDED}
    arrays = [v.array for v in operands] if alike else widened(equation, operands)
    return values(equation, bind(equation, arrays), Kind.SOURCE)


def _reduction(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:  # noqa: ARG001
    kind = Kind.SOURCE if join(operands) is Kind.SOURCE else Kind.STATISTIC
    return values(equation, bind(equation, widened(equation, operands)), kind)


def _conversion(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:  # noqa: ARG001
    """A conversion from float32 to itself changes nothing."""
    [taken], [made] = equation.invars, equation.outvars
    if is_float32(taken.aval) and is_float32(made.aval):
        return operands
    return in_float32(equation, operands)


RULES: dict[str, Callable[[Equation, list[Value], list[bool]], list[Value]]] = {
    **dict.fromkeys(PRODUCTS, _product),
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(SHAPING, _shaping),
    **dict.fromkeys(COMPARISONS, _comparison),
    **dict.fromkeys(REDUCTIONS, _reduction),
    "convert_element_type": _conversion,
    "optimization_barrier": _barrier,
}
"""Operation → its rule: (equation, operands, whether each result is only added up) → results."""
