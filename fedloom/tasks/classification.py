"""Classification: softmax cross-entropy and accuracy, for any model that gives one logit a class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fedloom.tasks.objective import supervised
from fedloom.tasks.task import Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Key, PyTree

    Apply = Callable[[Variables, Array, Key[Array, ""] | None], tuple[Float[Array, "batch classes"], PyTree]]


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
    return supervised(name, init, apply, "cross_entropy", classes=classes)
