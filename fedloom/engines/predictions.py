"""Predictions: models' outputs for all examples of a part, for metrics that are not means over examples (F1, R², …)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedloom.data.federated import FederatedData
from fedloom.engines.store import View, part_of
from fedloom.errors import require
from fedloom.tasks.task import Batch, Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Int, PyTree

ROWS = 200  # examples that a model sees at once, at most
PREDICTIONS = "(predictions)"
"""The name of a client's outputs among its metrics, until the metrics over them are computed."""


def predicted(task: Task, view: View, variables: Variables, start: Int[Array, ""], n: Int[Array, ""]) -> PyTree:
    """Return a model's outputs for a client's n examples, (view.room, …); the rows from n on mean nothing."""
    outputs = task.outputs
    assert outputs is not None
    rows = max(1, min(ROWS, view.room))
    batches = -(-view.room // rows)

    def batch(i: Array) -> PyTree:
        place = jnp.clip(i * rows + jnp.arange(rows, dtype=jnp.int32), 0, jnp.maximum(n - 1, 0))
        return outputs(variables, view.columns["x"][view.index[start + place]])

    found = lax.map(batch, jnp.arange(batches, dtype=jnp.int32))
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[: view.room], found)


def over_split(task: Task, outputs: PyTree, batch: Batch, part: str) -> dict[str, float]:
    """Return the task's metrics over all predictions of a part.

    A model whose outputs are not finite has NaN for each metric. A metric that is not finite for finite outputs is
    refused, because a run would take it for divergence.
    """
    found = over_predictions(task, outputs, batch)
    for name, value in found.items():
        need = f"a finite number for the predictions of the {part} part"
        require(math.isfinite(value) or not _is_finite(outputs), f'metrics["{name}"]', need, value)
    return found


def over_predictions(task: Task, outputs: PyTree, batch: Batch) -> dict[str, float]:
    """Return the task's metrics over some predictions; NaN where there is no prediction, or one that is not finite."""
    if not len(batch["y"]) or not _is_finite(outputs):
        return dict.fromkeys((name for name, _ in task.overall), math.nan)
    found = {}
    for name, function in task.overall:
        value = function(outputs, batch)
        need = 'one number over all predictions, which over="split" asks for'
        require(np.shape(value) == (), f'metrics["{name}"]', need, f"an array of shape {np.shape(value)}")
        found[name] = float(value)
    return found


def over_clients(
    task: Task, data: FederatedData, row: Mapping[str, Any], parts: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Return a round's measures of its clients, with metrics over each client's predictions in place of these.

    Args:
        task: the metrics.
        data: the examples.
        row: ``client`` and each measure, one value for each client; predictions are (clients, examples, …).
        parts: moment → the part of the data on which clients are measured then.
    """
    found = {name: np.asarray(value) for name, value in row.items() if not name.endswith(PREDICTIONS)}
    for moment, part in parts.items():
        outputs = row.get(f"{moment}_{PREDICTIONS}")
        if outputs is not None:
            of = [over_client(task, data, jax.tree.map(lambda a, j=j: a[j], outputs), part, int(who))
                  for j, who in enumerate(row["client"])]  # fmt: skip
            found |= {f"{moment}_{name}": np.array([one[name] for one in of]) for name, _ in task.overall}
    return found


def over_client(task: Task, data: FederatedData, outputs: PyTree, part: str, client: int) -> dict[str, float]:
    """Return the metrics over one client's predictions of a part; of client -1, NaN."""
    rows = rows_of(data, part, client) if client >= 0 else np.arange(0)
    return over_predictions(task, jax.tree.map(lambda a: a[: len(rows)], outputs), labels(data, rows))


def rows_of(data: FederatedData, part: str, client: int) -> np.ndarray:
    """Return the numbers of a client's examples of a part."""
    index, ranges = part_of(data, part)
    return index[ranges.start[client] : ranges.start[client] + ranges.size[client]]


def labels(data: FederatedData, rows: np.ndarray) -> Batch:
    """Return the columns of some examples, without the inputs."""
    return {name: column[rows] for name, column in data.columns.items() if name != "x"}


def _is_finite(outputs: PyTree) -> bool:
    return all(np.isfinite(a).all() for a in jax.tree.leaves(outputs) if np.issubdtype(a.dtype, np.floating))
