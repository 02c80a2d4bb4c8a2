"""Rewriting: the same function, with some of its operations in a form that is faster where it is compiled for.

A function of arrays is traced into the operations that it is made of, and these are done one by one: those for which
there is a rule by that rule, the others as they are. So a user's model in Keras, PyTorch, Flax or plain JAX is as fast
as a built-in one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

if TYPE_CHECKING:
    from jaxtyping import PyTree

Rule = Callable[..., Any]
"""(:class:`Operation`, its inputs) → its output (of a call: its outputs), or ``NotImplemented`` where it is better left
as it is.
"""
CALL = "call of "
"""What the names of rules begin with that are for calls of a compiled function, before the function's name."""


@dataclass(frozen=True)
class Operation:
    """An operation of a traced function: its parameters, and of each input how many operations take it."""

    params: dict[str, Any]
    uses: tuple[int, ...]


def rewritten(function: Callable[..., PyTree], rules: Mapping[str, Rule]) -> Callable[..., PyTree]:
    """The same function of arrays, in which operations for which there is a rule are done by that rule.

    >>> import jax.numpy as jnp
    >>> slower = lambda x: jnp.sin(x) + 1
    >>> float(rewritten(slower, {"sin": lambda equation, x: 0 * x})(3.0))
    1.0
    """

    def faster(*arguments: PyTree) -> PyTree:
        traced, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        found = evaluate(traced, jax.tree.leaves(arguments), rules)
        return jax.tree.unflatten(jax.tree.structure(shape), found)

    return faster


def evaluate(traced: ClosedJaxpr, inputs: Sequence[Any], rules: Mapping[str, Rule]) -> list[Any]:
    """The outputs of a traced function."""
    inner = traced.jaxpr
    known: dict[Any, Any] = dict(zip([*inner.constvars, *inner.invars], [*traced.consts, *inputs], strict=True))
    read = lambda v: v.val if isinstance(v, Literal) else known[v]  # noqa: E731
    takers = Counter(v for equation in inner.eqns for v in equation.invars if not isinstance(v, Literal))
    for equation in inner.eqns:
        given = [read(v) for v in equation.invars]
        uses = tuple(0 if isinstance(v, Literal) else takers[v] for v in equation.invars)
        known |= zip(equation.outvars, done(equation, given, rules, uses), strict=True)
    return [read(v) for v in inner.outvars]


def done(equation: Any, given: list[Any], rules: Mapping[str, Rule], uses: tuple[int, ...]) -> list[Any]:
    """What one operation gives: by a rule; or, where some of those inside it have one, with those rewritten; or as it
    is. A function with a derivative of its own stays as it is.
    """
    name, rule = equation.primitive.name, rule_of(equation, rules)
    if rule is not None and (found := rule(Operation(equation.params, uses), *given)) is not NotImplemented:
        return list(found) if equation.primitive.multiple_results else [found]
    if name in NESTED and any(concerns(inner, rules) for inner in jaxprs(equation)):
        return NESTED[name](equation, given, rules)
    params = equation.primitive.get_bind_params(equation.params)
    functions, params = params if isinstance(params, tuple) else ((), params)  # the former before JAX 0.10
    with equation.ctx.manager:
        found = equation.primitive.bind(*functions, *given, **params)
    return list(found) if equation.primitive.multiple_results else [found]


def rule_of(equation: Any, rules: Mapping[str, Rule]) -> Rule | None:
    """Return the rule of an operation, which goes by its primitive's name, or of a call, by its function's name."""
    name = equation.primitive.name
    return rules.get(f"{CALL}{equation.params['name']}" if name in ("jit", "pjit") else name)


def concerns(traced: Jaxpr, rules: Mapping[str, Rule]) -> bool:
    """Whether some operation in a traced function has a rule."""
    return any(rule_of(e, rules) is not None or any(concerns(inner, rules) for inner in jaxprs(e)) for e in traced.eqns)


def jaxprs(equation: Any) -> list[Jaxpr]:
    """The traced functions that an operation does."""
    values = [v for value in equation.params.values() for v in (value if isinstance(value, tuple | list) else [value])]
    return [v.jaxpr if isinstance(v, ClosedJaxpr) else v for v in values if isinstance(v, ClosedJaxpr | Jaxpr)]


def _inline(equation: Any, given: list[Any], rules: Mapping[str, Rule]) -> list[Any]:
    inner: ClosedJaxpr | Jaxpr = equation.params["jaxpr" if "jaxpr" in equation.params else "call_jaxpr"]
    return evaluate(inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ()), given, rules)


def _remat(equation: Any, given: list[Any], rules: Mapping[str, Rule]) -> list[Any]:
    again = lambda *inputs: _inline(equation, list(inputs), rules)  # noqa: E731
    kept = jax.checkpoint(again, prevent_cse=equation.params["prevent_cse"], policy=equation.params["policy"])
    return list(kept(*given))


def _scan(equation: Any, given: list[Any], rules: Mapping[str, Rule]) -> list[Any]:
    """What comes, and goes, step by step has one axis less inside. The parameters tell how many are fixed, carried and
    come too, in one way before JAX 0.12 and in another since.
    """
    params, inner = equation.params, equation.params["jaxpr"].jaxpr
    steps = sum(v.aval.ndim != i.aval.ndim for v, i in zip(equation.invars, inner.invars, strict=True))
    k = sum(v.aval.ndim == o.aval.ndim for v, o in zip(equation.outvars, inner.outvars, strict=True))
    c = len(given) - steps - k
    fixed, carry, coming = given[:c], given[c : c + k], given[c + k :]

    def step(carry: list[Any], now: list[Any]) -> tuple[list[Any], list[Any]]:
        found = evaluate(params["jaxpr"], [*fixed, *carry, *now], rules)
        return found[:k], found[k:]

    options = {name: params[name] for name in ("length", "reverse", "unroll")}
    last, every = lax.scan(step, carry, coming, **options)
    return [*last, *every]


def _cond(equation: Any, given: list[Any], rules: Mapping[str, Rule]) -> list[Any]:
    ways = [lambda *inputs, way=way: evaluate(way, inputs, rules) for way in equation.params["branches"]]
    return list(lax.switch(given[0], ways, *given[1:]))


def _while(equation: Any, given: list[Any], rules: Mapping[str, Rule]) -> list[Any]:
    params = equation.params
    c, b = params["cond_nconsts"], params["body_nconsts"]
    asked, fixed, first = given[:c], given[c : c + b], given[c + b :]
    goes_on = lambda carry: evaluate(params["cond_jaxpr"], [*asked, *carry], rules)[0]  # noqa: E731
    turn = lambda carry: evaluate(params["body_jaxpr"], [*fixed, *carry], rules)  # noqa: E731
    return list(lax.while_loop(goes_on, turn, first))


NESTED: dict[str, Callable[[Any, list[Any], Mapping[str, Rule]], list[Any]]] = {
    **dict.fromkeys(("jit", "pjit", "closed_call", "core_call"), _inline),
    **dict.fromkeys(("checkpoint", "remat2", "remat"), _remat),
    "scan": _scan,
    "cond": _cond,
    "while": _while,
}
"""Operations that do others → how they are done with those rewritten."""
