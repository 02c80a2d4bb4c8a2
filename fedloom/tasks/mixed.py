"""Mixed precision: a task that trains in bfloat16, with weights in float32 (Micikevicius et al. 2018)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.errors import choose, require
from fedloom.tasks.task import Batch, Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Key, PyTree


@cache
def mixed(task: Task) -> Task:
    """Return the same task, whose training steps are computed in bfloat16: faster on an accelerator, slower on a CPU.

    Weights, their gradients, sums, norms, softmax, losses and metrics stay in float32; matrix products and convolutions
    take bfloat16 operands. A user's model needs no change: its program is rewritten (:mod:`fedloom.tasks.bfloat16`).
    Built-in models compute in the type of the weights that they are given.

    Raises:
        ArgumentError: the task trains by another library (``TorchClient``), or is in bfloat16 already.

    >>> from fedloom.tasks import two_nn
    >>> mixed(two_nn()).name
    '2nn, bfloat16'
    """
    name = f"{task.name}, bfloat16"
    if task.rounded_loss is not None:
        return replace(task, name=name, loss=task.rounded_loss, rounded_loss=None)
    computes = task.client is None and task.give_back is None
    require(computes, "task", "one in float32 that fedloom computes (other libraries have mixed precision)", task.name)

    def loss(variables: Variables, batch: Batch, key: Key[Array, ""]) -> tuple[Float[Array, " batch"], PyTree]:
        rounded = Variables(as_type(variables.params, jnp.bfloat16), variables.state)
        losses, state = task.loss(rounded, {**batch, "x": as_type(batch["x"], jnp.bfloat16)}, key)
        return losses.astype(jnp.float32), as_type(state, jnp.float32)

    return replace(task, name=name, loss=loss)


def in_precision(task: Task, precision: str) -> Task:
    """Return a task that trains in ``float32``, as it is, or in ``bfloat16``."""
    choose("precision", precision, PRECISIONS)
    return mixed(task) if precision == "bfloat16" else task


PRECISIONS = dict.fromkeys(("float32", "bfloat16"))


def as_type(tree: PyTree, dtype: jax.typing.DTypeLike) -> PyTree:
    """Return the tree with its floating-point numbers in another type."""
    is_real = lambda a: jnp.issubdtype(jnp.result_type(a), jnp.floating)  # noqa: E731
    return jax.tree.map(lambda a: jnp.asarray(a, dtype) if is_real(a) else a, tree)
