"""From a function: any model that is a pure function of JAX arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedloom.tasks.bfloat16 import in_bfloat16
from fedloom.tasks.forms import applied
from fedloom.tasks.inputs import seen, tokens_of
from fedloom.tasks.mixed import in_precision
from fedloom.tasks.objective import supervised
from fedloom.tasks.task import Task, Variables
from fedloom.tasks.user_model import restored

if TYPE_CHECKING:
    from jaxtyping import Array, Key, PyTree

    from fedloom.tasks.inputs import Inputs
    from fedloom.tasks.objective import Losses, Metrics, Objective


def from_function(
    init: Callable[[Key[Array, ""]], Any],
    apply: Callable[..., Any],
    loss: str | Objective | Losses = "cross_entropy",
    *,
    metrics: Metrics | None = None,
    inputs: Inputs = None,
    stateful: bool = False,
    name: str = "function",
    precision: str = "float32",
) -> Task:
    """A task from a model that is two functions.

    Arguments:
        init: random key → parameters, any tree of arrays.
        apply: (parameters, x) → outputs.
        loss, metrics: what outputs are judged by; see :func:`fedloom.tasks.objective`.
        inputs: the shape of an example that the model wants, or a function from the column x to what it wants.
        stateful: whether init gives (parameters, state), and apply is (parameters, state, x, key) → (outputs, new
            state), the key ``None`` where nothing is trained: for batch norm, dropout and the like.
        name: what it is called in tables.
        precision: what training computes in: ``float32``, or ``bfloat16`` (:func:`fedloom.tasks.mixed`).

    >>> import jax, jax.numpy as jnp
    >>> linear = from_function(lambda key: {"w": jnp.zeros(3)}, lambda p, x: x @ p["w"], loss="squared_error")
    >>> linear.outputs(linear.init(jax.random.key(0)), jnp.ones((2, 3))).tolist()
    [0.0, 0.0]
    """
    look = seen(inputs, tokens=tokens_of(loss))

    def begin(key: Key[Array, ""]) -> Variables:
        return Variables(*init(key)) if stateful else Variables(init(key), {})

    def forward(params: PyTree, state: PyTree, x: Array, key: Key[Array, ""] | None) -> tuple[PyTree, PyTree]:
        return apply(params, state, x, key) if stateful else (apply(params, x), state)

    def give_back(variables: Variables) -> PyTree:
        mine = restored(variables, begin)
        return (mine.params, mine.state) if stateful else mine.params

    plain, rounded = applied(forward, look), applied(in_bfloat16(forward), look)
    task = supervised(name, begin, plain, loss, metrics=metrics, give_back=give_back, rounded=rounded)
    return in_precision(task, precision)
