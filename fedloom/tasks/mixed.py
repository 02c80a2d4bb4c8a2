"""Mixed precision: a task that trains in bfloat16, with weights in float32 (Micikevicius et al. 2018)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.errors import require
from fedloom.tasks.task import Batch, Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Key, PyTree


@cache
def mixed(task: Task) -> Task:
    """The same task, whose training steps are computed in bfloat16: faster on an accelerator, slower on a CPU.

    Weights stay in float32, and so does what changes them; each step rounds them for itself. Sums are made in float32,
    and everything that is measured too. It is for the built-in models, whose layers compute in the type of their
    weights; a model of one's own has its own ways, or those of its library.

    >>> from fedloom.tasks import two_nn
    >>> mixed(two_nn()).name
    '2nn, bfloat16'
    """
    built_in = task.client is None and task.give_back is None
    require(built_in, "task", "a built-in model (libraries have mixed precision of their own)", task.name)

    def loss(variables: Variables, batch: Batch, key: Key[Array, ""]) -> tuple[Float[Array, " batch"], PyTree]:
        rounded = Variables(as_type(variables.params, jnp.bfloat16), variables.state)
        losses, state = task.loss(rounded, {**batch, "x": as_type(batch["x"], jnp.bfloat16)}, key)
        return losses.astype(jnp.float32), as_type(state, jnp.float32)

    return replace(task, name=f"{task.name}, bfloat16", loss=loss)


def as_type(tree: PyTree, dtype: jax.typing.DTypeLike) -> PyTree:
    """The tree with its floating-point numbers in another type."""
    is_real = lambda a: jnp.issubdtype(jnp.result_type(a), jnp.floating)  # noqa: E731
    return jax.tree.map(lambda a: jnp.asarray(a, dtype) if is_real(a) else a, tree)
