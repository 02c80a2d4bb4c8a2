"""bfloat16: a traced program computed in bfloat16, except for its weights, sums, norms and softmax.

Matrix products and convolutions take bfloat16 operands; the hardware adds up their terms in float32. Element-wise
operations follow their operands. Sums, exponentials, roots, loops' carries and every operation that is not listed here
are computed in float32. Parameters are rounded where they are used, so their gradients are float32, and a weight that
is used several times adds up its gradients in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from fedloom.errors import ArgumentError, Told
from fedloom.tasks.kind import Kind, Value, as_declared, constant, is_float32, join
from fedloom.tasks.rewriting import jaxprs
from fedloom.tasks.rounding import (
    ELEMENTWISE,
    PRODUCTS,
    REDUCTIONS,
    RULES,
    SHAPING,
    Equation,
    bind,
    in_float32,
    values,
    widened,
)

if TYPE_CHECKING:
    from jaxtyping import PyTree

CALLS = {"closed_call", "core_call", "jit", "pjit"}
REMATERIALISED = {"checkpoint", "remat", "remat2"}
OWN_DERIVATIVES = {"custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"}


def in_bfloat16(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Return the same function of float32 arrays, computed in bfloat16; its results are float32 again.

    Raises:
        ArgumentError: when called, if a part of the function cannot be computed in bfloat16.

    >>> product = in_bfloat16(lambda x, w: x @ w)
    >>> float(product(jnp.full((1, 2), 1.001), jnp.full((2, 1), 3.0))[0, 0])
    6.0
    """

    def rounded(*arguments: PyTree) -> PyTree:
        leaves = jax.tree.leaves(arguments)
        check_possible(leaves)
        traced, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        found = evaluate(traced, [Value(a, Kind.SOURCE) for a in leaves])
        arrays = [as_declared(v, out.dtype) for v, out in zip(found, jax.tree.leaves(shape), strict=True)]
        return jax.tree.unflatten(jax.tree.structure(shape), arrays)

    return rounded


def check_possible(arrays: Sequence[Any]) -> None:
    """Raise an :class:`ArgumentError` if arrays or a setting of JAX ask for a higher precision than bfloat16."""
    if any(getattr(a, "dtype", None) == jnp.float64 for a in arrays):
        raise ArgumentError("precision", "float32 for a model in float64", "bfloat16")
    precision = jax.config.values["jax_default_matmul_precision"]
    if precision in ("float32", "highest"):
        setting = f"jax_default_matmul_precision is {precision!r}"
        raise ArgumentError("precision", f"float32 while {setting}", "bfloat16")


def evaluate(program: ClosedJaxpr, inputs: Sequence[Value], summed: Iterable[bool] = ()) -> list[Value]:
    """Evaluate a traced program.

    Args:
        program: the program, traced with float32 arrays.
        inputs: its inputs.
        summed: for each output, whether it is only added up outside; by default none is.
    """
    inner = program.jaxpr
    known = dict(zip(inner.constvars, map(constant, program.consts), strict=True))
    known |= zip(inner.invars, inputs, strict=True)
    read = lambda v: constant(v.val) if isinstance(v, Literal) else known[v]  # noqa: E731
    only_summed = summed_variables(inner, summed)
    for equation in inner.eqns:
        operands = [read(v) for v in equation.invars]
        wide = [v in only_summed for v in equation.outvars]
        known |= zip(equation.outvars, computed(equation, operands, wide), strict=True)
    return [read(v) for v in inner.outvars]


def computed(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:
    """Compute one operation."""
    name = equation.primitive.name
    if name in HANDLERS and any(is_float32(v.aval) for v in (*equation.invars, *equation.outvars)):
        return HANDLERS[name](equation, operands, wide)
    if any(has_products(inner) for inner in jaxprs(equation)):
        refuse(equation)
    return in_float32(equation, operands)


def _call(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:
    return evaluate(closed(equation), operands, wide)


def _rematerialised(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:
    kinds: list[Kind] = []

    def again(*arrays: Any) -> list[Any]:
        given = [Value(a, v.kind) for a, v in zip(arrays, operands, strict=True)]
        found = evaluate(closed(equation), given, wide)
        kinds[:] = [v.kind for v in found]
        return [v.array for v in found]

    params = equation.params
    kept = jax.checkpoint(again, prevent_cse=params["prevent_cse"], policy=params["policy"])
    arrays = kept(*(v.array for v in operands))
    return [Value(a, k) for a, k in zip(arrays, kinds, strict=True)]


def _own_derivative(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:
    """Do a function with a derivative of its own in float32; what it gives is rounded if it sums nothing up."""
    inner = jaxprs(equation)
    if any(has_products(j) for j in inner):
        refuse(equation)
    kind = join(operands)
    if kind in (Kind.ROUNDED, Kind.WIDE):
        plain = not any(holds(j, REDUCTIONS) for j in inner) and not all(wide)
        kind = Kind.ROUNDED if plain else Kind.WIDE
    return values(equation, bind(equation, widened(equation, operands)), kind)


def _scan(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:  # noqa: ARG001
    """Do a loop; what it carries from step to step is float32."""
    params, inner = equation.params, equation.params["jaxpr"].jaxpr
    steps = sum(v.aval.ndim != i.aval.ndim for v, i in zip(equation.invars, inner.invars, strict=True))
    k = sum(v.aval.ndim == o.aval.ndim for v, o in zip(equation.outvars, inner.outvars, strict=True))
    c = len(operands) - steps - k
    first = widened(equation, operands)[c : c + k]
    kinds: list[Kind] = []

    def step(carry: list[Any], now: list[Any]) -> tuple[list[Any], list[Any]]:
        coming = [Value(a, v.kind) for a, v in zip(now, operands[c + k :], strict=True)]
        found = evaluate(params["jaxpr"], [*operands[:c], *carried(carry), *coming])
        kinds[:] = [v.kind for v in found[k:]]
        return declared(found[:k], inner.outvars[:k]), [v.array for v in found[k:]]

    options = {name: params[name] for name in ("length", "reverse", "unroll")}
    last, every = lax.scan(step, first, [v.array for v in operands[c + k :]], **options)
    return [*carried(last), *(Value(a, kind) for a, kind in zip(every, kinds, strict=True))]


def _while(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:  # noqa: ARG001
    params = equation.params
    c, b = params["cond_nconsts"], params["body_nconsts"]
    asked, fixed, first = operands[:c], operands[c : c + b], widened(equation, operands)[c + b :]
    goes_on = lambda carry: evaluate(params["cond_jaxpr"], [*asked, *carried(carry)])[0].array  # noqa: E731
    outputs = params["body_jaxpr"].jaxpr.outvars
    turn = lambda carry: declared(evaluate(params["body_jaxpr"], [*fixed, *carried(carry)]), outputs)  # noqa: E731
    return carried(lax.while_loop(goes_on, turn, first))


def _cond(equation: Equation, operands: list[Value], wide: list[bool]) -> list[Value]:
    """Do one of several programs; what they give is float32."""
    if equation.params.get("branches_platforms"):
        if any(has_products(inner) for inner in jaxprs(equation)):
            refuse(equation)
        return in_float32(equation, operands)

    def way(branch: ClosedJaxpr) -> Callable[..., list[Any]]:
        def taken(*arrays: Any) -> list[Any]:
            given = [Value(a, v.kind) for a, v in zip(arrays, operands[1:], strict=True)]
            return declared(evaluate(branch, given, wide), branch.jaxpr.outvars)

        return taken

    found = lax.switch(
        operands[0].array, [way(b) for b in equation.params["branches"]], *(v.array for v in operands[1:])
    )
    return carried(found)


def carried(arrays: Sequence[Any]) -> list[Value]:
    """Return the values that come out of a loop or a branch."""
    return [Value(a, Kind.WIDE if is_float32(a) else Kind.SOURCE) for a in arrays]


def declared(found: Sequence[Value], outputs: Sequence[Any]) -> list[Any]:
    """Return the arrays that go into a loop or out of a branch."""
    return [as_declared(v, out.aval.dtype) for v, out in zip(found, outputs, strict=True)]


def closed(equation: Equation) -> ClosedJaxpr:
    """Return the program that an operation calls."""
    inner: ClosedJaxpr | Jaxpr = equation.params["jaxpr" if "jaxpr" in equation.params else "call_jaxpr"]
    return inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())


def summed_variables(program: Jaxpr, summed: Iterable[bool] = ()) -> set[Any]:
    """Return the variables of a program that are only added up, perhaps after element-wise operations.

    Args:
        program: the program.
        summed: for each of its outputs, whether it is only added up outside; by default none is.
    """
    flags = list(summed) or [False] * len(program.outvars)
    used: dict[Any, bool] = {}

    def use(variable: Any, only_summed: bool) -> None:
        if not isinstance(variable, Literal):
            used[variable] = used.get(variable, True) and only_summed

    for variable, flag in zip(program.outvars, flags, strict=True):
        use(variable, flag)
    for equation in reversed(program.eqns):
        name, outputs = equation.primitive.name, [used.get(v, False) for v in equation.outvars]
        if name in REDUCTIONS:
            takes = [True] * len(equation.invars)
        elif name in CALLS:
            inner = closed(equation).jaxpr
            found = summed_variables(inner, outputs)
            takes = [v in found for v in inner.invars]
        else:
            takes = [all(outputs) and name in ELEMENTWISE | SHAPING] * len(equation.invars)
        for variable, take in zip(equation.invars, takes, strict=True):
            use(variable, take)
    return {v for v, only_summed in used.items() if only_summed}


def holds(program: Jaxpr, names: Iterable[str]) -> bool:
    """Return whether a program has one of these operations, inside others too."""
    return any(e.primitive.name in names or any(holds(j, names) for j in jaxprs(e)) for e in program.eqns)


def has_products(program: Jaxpr) -> bool:
    """Return whether a program has a matrix product or a convolution."""
    return holds(program, PRODUCTS)


def refuse(equation: Equation) -> None:
    """Raise an error for an operation whose products cannot be computed in bfloat16."""
    name = equation.primitive.name
    inner = getattr(jaxprs(equation)[0].debug_info, "func_name", name)
    why = f"has a derivative of its own ({name.removesuffix('_call')})" if name in OWN_DERIVATIVES else f"is a {name}"
    raise ArgumentError(
        "precision",
        "float32 for this model",
        Told(f"bfloat16: its function {inner} {why}, so the matrix products in it cannot be rounded"),
    )


HANDLERS: dict[str, Callable[[Equation, list[Value], list[bool]], list[Value]]] = {
    **RULES,
    **dict.fromkeys(CALLS, _call),
    **dict.fromkeys(REMATERIALISED, _rematerialised),
    **dict.fromkeys(OWN_DERIVATIVES, _own_derivative),
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}
