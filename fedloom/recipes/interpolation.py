"""Interpolation: the loss between two models that were trained on different data (McMahan et al. 2017, figure 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedloom.data import Dataset, partition
from fedloom.recipes.conduct import Conduct
from fedloom.runs.experiment import Experiment
from fedloom.runs.prepare import read
from fedloom.runs.settings import Settings
from fedloom.runs.stopping import Stop
from fedloom.tasks import Batch, Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

EXAMPLES, POINTS, BATCH = 600, 50, 1000
STARTS = {"shared": (0, 0), "independent": (0, 1)}
"""Whether two models begin alike → the seeds of their initialisation."""


def interpolated(e: Experiment, conduct: Conduct) -> Mapping[str, Sequence[float]]:
    """The loss on all training data of θ·w + (1 - θ)·w', for models w and w' that were each trained on 600 examples of
    their own: from a shared initialisation, and from independent ones.
    """
    dataset = read(e)
    order = np.random.default_rng(e.data_seed).permutation(dataset.train)
    theta = np.linspace(-0.2, 1.2, POINTS)
    columns: dict[str, Sequence[float]] = {"theta": theta.tolist()}
    for name, seeds in STARTS.items():
        first, second = (
            trained(e, dataset, order[i * EXAMPLES : (i + 1) * EXAMPLES], seed, f"{name}, model {i + 1}", conduct)
            for i, seed in enumerate(seeds)
        )
        columns[name] = losses(first[0], dataset, first[1], second[1], theta)
    return columns


def trained(
    e: Experiment, dataset: Dataset, rows: np.ndarray, seed: int, label: str, conduct: Conduct
) -> tuple[Task, Variables]:
    """The task, and the model trained on those rows alone."""
    one = Dataset(dataset.name, dataset.columns, dataset.classes, train=rows, test=dataset.test)
    data = one.partition(partition.iid(1))
    task = e.build_task(data)
    runs = conduct.train(data, task, [e.build_algorithm()], [seed], Settings(Stop(1), ("test",)), [label])
    return task, conduct.whole(runs)[0].variables


def losses(task: Task, dataset: Dataset, w: Variables, v: Variables, theta: np.ndarray) -> list[float]:
    """The mean training loss of every mixture."""
    rows = dataset.train[: len(dataset.train) // BATCH * BATCH].reshape(-1, BATCH)

    @jax.jit
    def every(theta: Float[Array, " points"], columns: Batch, rows: Int[Array, "batches rows"]) -> Array:
        def loss(t: Float[Array, ""]) -> Float[Array, ""]:
            mixed = jax.tree.map(lambda a, b: t * a + (1 - t) * b, w, v)

            def add(total: Array, batch: Array) -> tuple[Array, None]:
                found = task.metrics(mixed, {name: column[batch] for name, column in columns.items()})
                return total + found["loss"].sum(), None

            return lax.scan(add, jnp.float32(0), rows)[0] / rows.size

        return lax.map(loss, theta)

    return np.asarray(every(jnp.asarray(theta, jnp.float32), dataset.columns, rows), float).tolist()
