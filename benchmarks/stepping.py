"""How long a step of SGD takes that several models do side by side, as an accelerator does them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.tasks.task import Task, Variables


def seconds(task: Task, batch: Mapping[str, np.ndarray], steps: int) -> float:
    """The median time of a step; each model has its part of a batch (models, examples, …)."""

    def one(params: Any, examples: Any, key: jax.Array) -> Any:
        loss = lambda p: jnp.mean(task.loss(Variables(p, {}), examples, key)[0])  # noqa: E731
        return jax.tree.map(lambda a, d: a - 0.01 * d, params, jax.grad(loss)(params))

    keys = jax.random.split(jax.random.key(0), len(batch["x"]))
    placed, ahead = jax.device_put(dict(batch)), jax.jit(jax.vmap(one), donate_argnums=0)
    params = jax.block_until_ready(ahead(jax.vmap(task.init)(keys).params, placed, keys))
    took = []
    for _ in range(steps):
        start = time.perf_counter()
        params = jax.block_until_ready(ahead(params, placed, keys))
        took.append(time.perf_counter() - start)
    return statistics.median(took)
