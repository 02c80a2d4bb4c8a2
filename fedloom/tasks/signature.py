"""Signature: a number for what an operation of a traced function does, equal for operations that do the same."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from fedloom.tasks.rewriting import done, jaxprs

OWN_DERIVATIVE = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")


class Signatures:
    """The signatures of operations. Two operations have the same signature if they do the same to operands of the same
    shapes and types, first derivatives included; which arrays the operands are does not matter.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._programs: dict[tuple[int, bool], tuple[Any, int]] = {}  # with the program, so that its id stays its own

    def of(self, equation: Any, differentiated: bool = True) -> int:
        """Return the signature of an operation; without derivatives where nothing is differentiated."""
        name, params = equation.primitive.name, equation.params
        inputs, outputs = (tuple(_type(v) for v in vs) for vs in (equation.invars, equation.outvars))
        if equation.effects:  # order matters, so it is like no other
            return self._number(object())
        if name in OWN_DERIVATIVE:
            inner = tuple(self.of_program(program, False) for program in jaxprs(equation))
            described: Hashable = inner, self._derivative(equation) if differentiated else ()
        else:
            described = self._described(params, differentiated)
        return self._number((name, inputs, outputs, repr(equation.ctx), described))

    def of_program(self, program: Jaxpr, differentiated: bool = True) -> int:
        """Return the signature of a traced function: of its operations, and of how they are connected."""
        key = id(program), differentiated
        if key in self._programs:
            return self._programs[key][1]
        places: dict[Any, int] = {}

        def place(variable: Any) -> Hashable:
            if isinstance(variable, Literal):
                return self._described(np.asarray(variable.val), differentiated)
            return places.setdefault(variable, len(places))

        heads = tuple((place(v), _type(v)) for v in (*program.constvars, *program.invars))
        steps = tuple((self.of(e, differentiated), *map(place, (*e.invars, *e.outvars))) for e in program.eqns)
        found = self._number(("program", heads, steps, tuple(map(place, program.outvars))))
        self._programs[key] = program, found
        return found

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _derivative(self, equation: Any) -> Hashable:
        """Describe the gradient of a function that has a derivative of its own."""
        avals = [v.aval for v in equation.invars]
        real = [i for i, a in enumerate(avals) if jnp.issubdtype(a.dtype, jnp.floating)]

        def gradient(*inputs: Any) -> Any:
            def value(*reals: Any) -> list[Any]:
                filled = list(inputs)
                for i, a in zip(real, reals, strict=True):
                    filled[i] = a
                return done(equation, filled, {}, ())

            outputs, pull = jax.vjp(value, *(inputs[i] for i in real))
            return pull([_cotangent(o) for o in outputs])

        try:
            traced = jax.make_jaxpr(gradient)(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))
        except Exception:  # a user's derivative may raise anything; an operation without one is like no other
            return object()
        return self._described(traced, False)

    def _described(self, value: Any, differentiated: bool) -> Hashable:
        """Return what stands for a parameter of an operation: equal values for parameters that mean the same."""
        again = partial(self._described, differentiated=differentiated)
        if isinstance(value, ClosedJaxpr):
            return "program", self.of_program(value.jaxpr, differentiated), again(tuple(value.consts))
        if isinstance(value, Jaxpr):
            return "program", self.of_program(value, differentiated)
        if isinstance(value, Mapping):
            return tuple((str(name), again(value[name])) for name in sorted(value, key=str) if name != "name")
        if isinstance(value, tuple | list):
            return type(value).__name__, tuple(map(again, value))
        if isinstance(value, np.ndarray | np.generic):
            return "array", str(value.dtype), value.shape, value.tobytes()
        try:
            hash(value)
        except TypeError:
            return object()
        return type(value), value


def size(equation: Any) -> int:
    """Return how many operations an operation is made of: 1, or those of the functions that it calls."""
    return sum(size(e) for inner in jaxprs(equation) for e in inner.eqns) or 1


def _type(variable: Any) -> Hashable:
    return variable.aval.shape, str(variable.aval.dtype)


def _cotangent(output: Any) -> Any:
    real = jnp.issubdtype(output.dtype, jnp.floating)
    return jnp.ones_like(output) if real else np.zeros(output.shape, jax.dtypes.float0)
