"""Fitting: a model handed to every user, who goes on training it on its own data (fine-tuning)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.algorithms import fedavg
from fedloom.data import FederatedData
from fedloom.engines import Engine, compiled
from fedloom.engines.program import clients_of
from fedloom.errors import require
from fedloom.local import Local
from fedloom.runs.checks import check
from fedloom.runs.users import Users, present
from fedloom.tasks import Task, Variables
from fedloom.trees import stack


def fine_tune(
    data: FederatedData,
    task: Task,
    variables: Variables,
    local: Local,
    *,
    seed: int = 0,
    engine: Engine | None = None,
) -> Users:
    """Measure a given model with each user, before and after the user trains it on its own data.

    Each user is measured on its own test data (``before_accuracy``, ``after_accuracy``), or, where all test data
    belongs to no user, on everybody's (``global_before_accuracy``, ``global_accuracy``).

    Arguments:
        data: who has which examples.
        task: what is learned.
        variables: the model that all begin with: a federated run's, or one trained on the union.
        local: how each user trains it, for example ``fedloom.local.sgd(lr=0.05, epochs=3)``.
        seed: of the order in which they see their examples.
        engine: where it is computed; compiled in this process by default.
    """
    require("test" in data.splits, "data", "some with a test part", data.name)
    everybody = fedavg(fraction=1.0, local=local)
    check(everybody, task, data)
    wanted, given = (
        jax.tree.map(jnp.shape, v) for v in (jax.eval_shape(lambda: task.init(jax.random.key(0))), variables)
    )
    require(wanted == given, "variables", f"one model of {task.name}, not one for each user", "of other shapes")
    program = (engine or compiled()).program(data, task, [everybody], [seed], observed=True)
    begin = jax.vmap(lambda algorithm, model: algorithm.init(model, len(data)))
    state = program.place(begin(program.method, stack([variables])))
    _, did = program.advance(state, 0, 1)
    found = present(clients_of(program, did, 0), len(data))
    return Users() + {"round": np.int64(0), "all_clients": np.int64(len(data)), **found}
