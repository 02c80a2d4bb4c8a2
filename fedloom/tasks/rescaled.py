"""Rescaled: a task whose inputs are shifted and scaled before the model sees them."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from fedloom.tasks.inputs import as_float
from fedloom.tasks.task import Batch, Loss, Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Key, PyTree


@cache
def rescaled(task: Task, shift: float, scale: float, name: str) -> Task:
    """The same task with inputs (x - shift) / scale, where x are pixels between 0 and 1 or numbers as they are.

    >>> from fedloom.tasks import two_nn
    >>> rescaled(two_nn(), 0.5, 0.5, "centred").name
    '2nn, centred inputs'
    """

    def seen(batch: Batch) -> Batch:
        return {**batch, "x": (as_float(batch["x"]) - shift) / scale}

    def loss(
        inner: Loss, variables: Variables, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Float[Array, " batch"], PyTree]:
        return inner(variables, seen(batch), key)

    def metrics(variables: Variables, batch: Batch) -> dict[str, Float[Array, " batch"]]:
        return task.metrics(variables, seen(batch))

    def outputs(variables: Variables, x: Array) -> PyTree:
        assert task.outputs is not None
        return task.outputs(variables, seen({"x": x})["x"])

    return Task(
        f"{task.name}, {name} inputs", task.init, partial(loss, task.loss), metrics, task.classes,
        outputs if task.outputs else None, rounded_loss=partial(loss, task.rounded_loss) if task.rounded_loss else None,
        better=task.better, overall=task.overall,
    )  # fmt: skip
