"""Forms: which operations of a user's model are done in another form, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr
from rich.console import Console

import fedloom.kernels.processor as processor
import fedloom.tasks.repeated as repeated
from fedloom.kernels.lanes import plain
from fedloom.machine import devices
from fedloom.tasks.attention import calls_of_jax, fastest
from fedloom.tasks.convolve import convolve
from fedloom.tasks.gelu import calls_of_gelu
from fedloom.tasks.gelu import fastest as fastest_gelu
from fedloom.tasks.inputs import is_integer
from fedloom.tasks.layer_scan import scanned
from fedloom.tasks.layers import SMALL, fused
from fedloom.tasks.pooling import MOST, Window, largest
from fedloom.tasks.recurrence import layer_name
from fedloom.tasks.rewriting import CALL, Operation, Rule, evaluate, jaxprs, rule_of

if TYPE_CHECKING:
    from jaxtyping import Array, Key, PyTree

    from fedloom.tasks.task import Variables

UNTRACEABLE = (TypeError, ValueError, RuntimeError, AssertionError)
"""The errors by which libraries refuse a type of numbers."""

console = Console(stderr=True)
CONVOLUTIONS = "Convolutions"
LARGE = 2**12  # numbers in a matrix from which its gradient's form is worth a thought
WORTH = 2**18  # multiplications from which a product's gradient is worth a kernel


def fast(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Return the same function of arrays, whose convolutions, pooling and dense layers are as fast as those of the
    built-in models, under ``vmap`` over clients' weights and inside compiled loops.
    """

    def chosen(*arguments: PyTree) -> PyTree:
        traced, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        found = run(traced, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), found)

    return chosen


def run(traced: ClosedJaxpr, inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs of a traced model, by kernels where they apply and by the rules below elsewhere."""
    if devices()[0].platform != "cpu":  # XLA's CPU backend takes longer to compile a scan than twelve layers
        return evaluate(scanned(traced), inputs, RULES | repeated.RULES)
    why, parts = processor.reason(), parts_with_kernels(traced.jaxpr)
    if why and parts:
        say_missing(parts[0], why)
    if why or CONVOLUTIONS not in parts:
        return evaluate(traced, inputs, RULES)
    import fedloom.tasks.carrying as carrying  # needs llvmlite

    if not carrying.has_kernel(traced.jaxpr):
        return evaluate(traced, inputs, RULES)
    return [plain(value) for value in carrying.evaluate(traced, inputs, RULES)]


@cache
def say_missing(what: str, why: str) -> None:
    """Say once why a part of a model is slower than it could be; nothing if a user has turned kernels off."""
    if not why.startswith(processor.SWITCH):
        console.print(f"[dim]{what} run without fedloom's kernels: {why}.[/dim]", soft_wrap=True, highlight=False)


def parts_with_kernels(traced: Jaxpr) -> list[str]:
    """Return the parts of a traced function that take long without kernels."""
    found = {CONVOLUTIONS: has(traced, "conv_general_dilated"), "Recurrent layers": is_recurrent(traced),
             "Attention layers": has(traced, "attention")}  # fmt: skip
    return [part for part, there in found.items() if there]


def has(traced: Jaxpr, name: str) -> bool:
    """Return True if a traced function has an operation of a name."""
    return any(e.primitive.name == name or any(has(inner, name) for inner in jaxprs(e)) for e in traced.eqns)


def is_recurrent(traced: Jaxpr) -> bool:
    """Return True if a traced function has an LSTM or GRU layer of PyTorch or Keras."""
    return any(rule_of(e, RECURRENT) is not None or any(map(is_recurrent, jaxprs(e))) for e in traced.eqns)


def applied(forward: Callable[..., Any], look: Callable[[Array], Array]) -> Callable[..., Any]:
    """Return a model as a task applies it, its operations in fast forms.

    Integers that are no images go to the model as integers. If the model cannot be traced with integers, it needs
    floats (a convolution, for example), and gets floats of the same value. If it cannot be traced with these either,
    the error is that of the integers.

    Args:
        forward: (parameters, state, what the model sees, key) → (outputs, new state).
        look: the column x → what the model sees.
    """

    @wraps(forward)
    def seen(*arguments: Any) -> Any:
        with calls_of_jax(), calls_of_gelu():
            return forward(*arguments)

    quick = fast(seen)

    def apply(variables: Variables, x: Array, key: Key[Array, ""] | None) -> tuple[PyTree, PyTree]:
        view = look(x)
        if not (is_integer(x) and jnp.issubdtype(view.dtype, jnp.integer)):
            return quick(variables.params, variables.state, view, key)
        try:
            return quick(variables.params, variables.state, view, key)
        except UNTRACEABLE as error:
            try:
                return quick(variables.params, variables.state, view.astype(float), key)
            except UNTRACEABLE:
                raise error from None

    return apply


def _convolution(operation: Operation, x: Array, w: Array) -> Array:
    floating = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype == w.dtype
    return convolve(x, w, operation.params) if floating else NotImplemented


def _pooling(operation: Operation, x: Array) -> Array:
    """Max-pooling without dilation."""
    p = operation.params
    plain = set(p["base_dilation"]) | set(p["window_dilation"]) == {1}
    sizes, strides, padding = (tuple(p[name]) for name in ("window_dimensions", "window_strides", "padding"))
    if not plain or np.prod(sizes) > MOST or not jnp.issubdtype(x.dtype, jnp.floating):
        return NotImplemented
    return largest(Window(sizes, strides, padding), x)


def _product(operation: Operation, x: Array, w: Array) -> Array:
    """Rows times a matrix, or its transposed. A few rows and a large matrix have a form of their own where that matrix
    has no other use: the gradients of a layer that is used again and again (over time) are better added up as matrices.
    """
    (summed_x, summed_w), batched = operation.params["dimension_numbers"]
    plain = w.ndim == 2 and x.ndim > 1 and summed_x == (x.ndim - 1,) and len(summed_w) == 1 and batched == ((), ())
    if not plain or operation.params["precision"] is not None or x.dtype != w.dtype or x.dtype != jnp.float32:
        return NotImplemented
    rows, transposed = x.size // max(1, x.shape[-1]), summed_w == (1,)
    if rows <= SMALL:
        if x.ndim > 2 or w.size < LARGE or operation.uses[1] > 1:
            return NotImplemented
        matmul = (lambda x, w: x @ w.T) if transposed else jnp.matmul
        return lax.platform_dependent(x, w, cpu=partial(fused, transposed), default=matmul)
    if rows * w.size < WORTH or devices()[0].platform != "cpu" or not processor.width():
        return NotImplemented
    import fedloom.kernels.dense as dense  # needs llvmlite

    found = dense.multiply(transposed, x.reshape(rows, -1), w)
    return found.reshape(*x.shape[:-1], -1)


def _recurrent(kind: str, back: bool, batch_first: bool, operation: Operation, x: Array, *others: Array) -> Any:  # noqa: ARG001
    """An LSTM or GRU layer on a CPU that kernels are for; an LSTM with a projection of h is left as it is."""
    state, weights = others[: STATES[kind]], others[STATES[kind] :]
    plain = len(weights) in (2, 4) and all(a.dtype == jnp.float32 for a in (x, *others)) and 0 not in x.shape
    if not plain or devices()[0].platform != "cpu" or not processor.width():
        return NotImplemented
    from fedloom.kernels.recurrent import recurrent  # needs llvmlite

    wi, wh, *biases = weights
    of_x, of_h = biases or [jnp.zeros(len(wi), x.dtype)] * 2
    b = of_x + of_h
    if kind == "gru":
        third = 2 * wh.shape[1]
        b = jnp.concatenate([b[:third], of_x[third:], of_h[third:]])
    out, last = recurrent(kind, x, state[0], state[-1], wi, wh, b, back, batch_first)
    end = 0 if back else -1
    return [out, out[:, end] if batch_first else out[end], last][: 1 + len(state)]


STATES = {"lstm": 2, "gru": 1}
"""Recurrent layer that has kernels → how many arrays are its state."""
RECURRENT: dict[str, Rule] = {
    f"{CALL}{layer_name(kind, back, batch_first)}": partial(_recurrent, kind, back, batch_first)
    for kind in STATES
    for back in (False, True)
    for batch_first in (False, True)
}
RULES: dict[str, Rule] = {
    **RECURRENT,
    "attention": lambda operation, *arrays: fastest(*arrays, **operation.params),
    "conv_general_dilated": _convolution,
    "reduce_window_max": _pooling,
    "dot_general": _product,
    "gelu": lambda operation, x: fastest_gelu(x, **operation.params),
}
