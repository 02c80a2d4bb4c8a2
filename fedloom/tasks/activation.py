"""Activation: what a model does last to its outputs, read from its program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

SHAPING = {
    "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "expand_dims", "optimization_barrier",
    "reshape", "squeeze", "stop_gradient", "transpose",
}  # fmt: skip
"""Operations that are looked through, to their first operand: they change no number."""
BOUNDING = ("clamp", "max", "min")
LOOPS = {"cond", "scan", "while"}
SIMPLE = {"logistic": "sigmoid", "tanh": "tanh"}
"""Operations that are activations by themselves."""


@dataclass(frozen=True, eq=False)
class Node:
    """An operation and those that its operands come from; inputs and constants are operations without a name."""

    name: str = ""
    operands: tuple[Node, ...] = ()
    value: float | None = None  # of a constant that is one number

    def has(self, *names: str) -> bool:
        """Return whether it is one of these operations."""
        return self.name in names


def last(function: Callable[..., Any], *arguments: Any) -> str:
    """Return the activation that the first output of a function comes out of, if it is one that squashes numbers.

    Those are softmax, log_softmax, sigmoid, log_sigmoid, hard_sigmoid, softsign and tanh, however they are written.

    >>> x = jax.numpy.zeros(2)
    >>> last(lambda x: 2 * jax.nn.softmax(x), x), last(lambda x: jax.nn.softmax(x)[:, None], x)
    ('', 'softmax')
    """
    program = jax.make_jaxpr(function)(*arguments).jaxpr
    if not program.outvars:
        return ""
    return _bounded(_visible(_outputs(program, [Node() for _ in program.invars])[0]))


def _bounded(node: Node) -> str:
    """Return the activation, also where its numbers are then kept within bounds."""
    if node.has(*BOUNDING):
        return next(filter(None, (_bounded(_visible(n)) for n in node.operands)), "")
    return _activation(node)


def _outputs(program: Jaxpr, inputs: list[Node]) -> list[Node]:
    """Return the operations that a program's outputs come from, calls of other programs written out."""
    nodes: dict[Any, Node] = dict(zip(program.invars, inputs, strict=True))

    def node(variable: Any) -> Node:
        if isinstance(variable, Literal):
            return Node(value=float(variable.val) if np.ndim(variable.val) == 0 else None)
        return nodes.get(variable, Node())

    for step in program.eqns:
        operands = [node(v) for v in step.invars]
        called = [p.jaxpr if isinstance(p, ClosedJaxpr) else p for p in step.params.values()
                  if isinstance(p, ClosedJaxpr | Jaxpr)]  # fmt: skip
        if len(called) == 1 and step.primitive.name not in LOOPS and len(called[0].invars) == len(operands):
            found = _outputs(called[0], operands)
        else:
            found = [Node(step.primitive.name, tuple(operands))] * len(step.outvars)
        nodes.update(zip(step.outvars, found, strict=True))
    return [node(v) for v in program.outvars]


def _activation(node: Node) -> str:
    """Return the activation that an operation is the last step of."""
    if node.name in SIMPLE:
        return SIMPLE[node.name]
    for name, fits in WRITTEN.items():
        if fits(node.name, [_visible(operand) for operand in node.operands]):
            return name
    return ""


def _visible(node: Node) -> Node:
    """Return the operation that a node's numbers come from."""
    while node.operands:
        if node.has("mul") and any(n.value == 1 for n in node.operands):
            node = next((n for n in node.operands if n.value != 1), Node())
        elif node.name in SHAPING:
            node = node.operands[0]
        else:
            break
    return node


def _is_softmax(name: str, operands: list[Node]) -> bool:
    """Return whether it is exp / Σ exp, or exp · (1 / Σ exp), or the exponential of a log_softmax."""
    if name == "div":
        return operands[0].has("exp") and _is_sum(operands[1])
    if name == "mul":
        return any(a.has("exp") and _divisor(b) and _is_sum(_divisor(b)) for a, b in (operands, operands[::-1]))
    return name == "exp" and _activation(operands[0]) == "log_softmax"


def _is_log_softmax(name: str, operands: list[Node]) -> bool:
    """Return whether it is x - log Σ exp, where the numbers summed may be shifted, or the logarithm of a softmax."""
    if name == "sub":
        parts = [operands[1], *map(_visible, operands[1].operands if operands[1].has("add") else ())]
        return any(part.has("log") and _is_sum(_visible(part.operands[0])) for part in parts)
    return name == "log" and _holds(operands[0], "softmax")


def _is_sigmoid(name: str, operands: list[Node]) -> bool:
    """Return whether it is 1 / (1 + exp)."""
    below = _divisor(Node(name, tuple(operands)))
    if below is None or not below.has("add"):
        return False
    return any(_visible(n).has("exp") for n in below.operands) and any(_visible(n).value == 1 for n in below.operands)


def _is_log_sigmoid(name: str, operands: list[Node]) -> bool:
    """Return whether it is -softplus, or min(x, 0) - log(1 + exp), or the logarithm of a sigmoid."""
    if name == "neg":
        return _is_softplus(operands[0])
    if name == "sub":
        return operands[0].has("min") and _is_softplus(operands[1])
    return name == "log" and _holds(operands[0], "sigmoid")


def _is_softplus(node: Node) -> bool:
    """Return whether it is log(1 + exp), also as a maximum and a remainder."""
    if node.has("select_n"):
        return any(_is_softplus(_visible(n)) for n in node.operands[1:])
    if node.has("add"):
        return any(_is_softplus(_visible(n)) for n in node.operands)
    return node.has("log1p") and _visible(node.operands[0]).has("exp")


def _is_hard_sigmoid(name: str, operands: list[Node]) -> bool:
    """Return whether it is a number cut to between 0 and 6, over 6."""
    over = name == "div" and operands[1].value == 6
    times = name == "mul" and any(n.value is not None and abs(6 * n.value - 1) < 1e-6 for n in operands)
    cut = [n for n in operands if n.has(*BOUNDING)]
    return (over or times) and any(m.value == 6 for n in cut for m in map(_visible, n.operands))


def _is_softsign(name: str, operands: list[Node]) -> bool:
    """Return whether it is x / (1 + |x|)."""
    below = list(map(_visible, operands[1].operands)) if name == "div" and operands[1].has("add") else []
    return any(n.has("abs") for n in below) and any(n.value == 1 for n in below)


def _is_sum(node: Node | None) -> bool:
    """Return whether it is a sum of exponentials."""
    if node is not None and node.has("abs"):
        node = _visible(node.operands[0])
    return node is not None and node.has("reduce_sum") and _visible(node.operands[0]).has("exp")


def _divisor(node: Node) -> Node | None:
    """Return what one is divided by."""
    if node.has("integer_pow"):
        return _visible(node.operands[0])
    return _visible(node.operands[1]) if node.has("div") and _visible(node.operands[0]).value == 1 else None


def _holds(node: Node, activation: str) -> bool:
    """Return whether it is an activation, bounded or with something small added."""
    inner = map(_visible, node.operands) if node.has("add") else [node]
    return any(_bounded(n) == activation for n in inner)


WRITTEN: dict[str, Callable[[str, list[Node]], bool]] = {
    "softmax": _is_softmax,
    "log_softmax": _is_log_softmax,
    "sigmoid": _is_sigmoid,
    "log_sigmoid": _is_log_sigmoid,
    "hard_sigmoid": _is_hard_sigmoid,
    "softsign": _is_softsign,
}
"""Activation → whether an operation, by its name and what its operands come from, is its last step."""
