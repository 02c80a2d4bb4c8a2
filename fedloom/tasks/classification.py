"""Classification: softmax cross-entropy and accuracy, for any model that gives one logit a class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.tasks.task import Batch, Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, Key, PyTree

    Apply = Callable[[Variables, Array, Key[Array, ""] | None], tuple[Float[Array, "batch classes"], PyTree]]


def cross_entropy(logits: Float[Array, "batch classes"], labels: Int[Array, " batch"]) -> Float[Array, " batch"]:
    """-log softmax(logits)[label] of each example.

    >>> print(f"{cross_entropy(jnp.zeros((1, 4)), jnp.array([2]))[0]:.4f}")
    1.3863
    """
    chosen = labels[:, None] == jnp.arange(logits.shape[-1])
    return -jnp.sum(jnp.where(chosen, jax.nn.log_softmax(logits), 0), axis=-1)


def classification(
    name: str, init: Callable[[Key[Array, ""]], Variables], apply: Apply, classes: int | None = None
) -> Task:
    """A classification task.

    Arguments:
        name: what it is called in tables.
        init: random key → variables.
        apply: (variables, inputs, random key or ``None`` where nothing is trained) → (logits, new state).
        classes: how many logits there are; a run then checks that the data has no more classes.
    """

    def loss(variables: Variables, batch: Batch, key: Key[Array, ""]) -> tuple[Float[Array, " batch"], PyTree]:
        logits, state = apply(variables, batch["x"], key)
        return cross_entropy(logits, batch["y"]), state

    def metrics(variables: Variables, batch: Batch) -> dict[str, Float[Array, " batch"]]:
        logits, _ = apply(variables, batch["x"], None)
        correct = jnp.argmax(logits, axis=-1) == batch["y"]
        losses = cross_entropy(logits, batch["y"])
        return {"loss": losses, "accuracy": correct.astype(jnp.float32), "count": jnp.ones_like(losses)}

    return Task(name, init, loss, metrics, classes)


def as_float(x: Array) -> Float[Array, ...]:
    """Pixels as numbers between 0 and 1; anything else as it is. Images stay bytes until they get here."""
    return x.astype(float) / 255 if x.dtype == jnp.uint8 else x.astype(float)
