"""One client's local work on given batches, outside a run."""

from typing import Any

import jax
import jax.numpy as jnp

from fedloom.local import Client, Local, Reply, Sent, StepBatch, StepPosition, Work
from fedloom.tasks import Batch, Task

KEY = jax.random.key(0)


def a_client(lr: float = 0.1, examples: int = 2, steps: int = 1, round: int = 0) -> Client:
    return Client(jnp.int32(examples), jnp.int32(steps), lr, jnp.int32(round), KEY, {})


def as_step(batch: Batch, epoch: int = 0, is_last: bool = True, key: Any = KEY) -> StepBatch:
    rows = len(batch["x"])
    return StepBatch(batch, jnp.full(rows, 1 / rows), StepPosition(jnp.asarray(is_last), jnp.int32(epoch)), key)


def worked(local: Local, task: Task, sent: Sent, state: Any, batches: list[StepBatch], client: Client) -> Work:
    """The work after one step for each batch."""
    work = local.begin(sent, state, client)
    for batch in batches:
        work = local.step(task, work, batch, client)
    return work


def replied(local: Local, task: Task, sent: Sent, state: Any, batches: list[StepBatch], client: Client) -> Reply:
    """The reply after one step for each batch."""
    return local.end(worked(local, task, sent, state, batches, client), sent, state, client)
