"""What tests of users' models share: one client's epoch on given batches, and data of one client."""

from typing import Any

import jax
import numpy as np
from one_client import a_client, as_step

import fedloom as fl
from fedloom.data import FederatedData, Ranges
from fedloom.local import Sent
from fedloom.tasks import Batch, Task, Variables

LR = 0.1


def stepped(task: Task, batches: list[Batch], lr: float = LR, variables: Variables | None = None) -> Variables:
    """What a client has after one step of SGD on each batch, as inside a run."""
    local, client = fl.local.sgd(lr=lr), a_client(lr)
    work = local.begin(Sent(variables or task.init(jax.random.key(0)), {}), {}, client)

    @jax.jit
    def step(work: Any, batch: Batch, key: Any) -> Any:
        return local.step(task, work, as_step(batch, key=key), client)

    for i, batch in enumerate(batches):
        work = step(work, batch, jax.random.key(i))
    return work.variables


def drawn(shape: tuple[int, ...], classes: int = 3, batches: int = 3, rows: int = 6) -> list[Batch]:
    """A few batches of random examples."""
    rng = np.random.default_rng(0)
    return [
        {"x": rng.normal(size=(rows, *shape)).astype(np.float32), "y": rng.integers(0, classes, rows).astype(np.int32)}
        for _ in range(batches)
    ]


def federated(x: np.ndarray, y: np.ndarray, clients: int = 1, classes: int = 3) -> FederatedData:
    """These examples, as many for each client; all of them are the test data too."""
    each = len(x) // clients
    ranges = Ranges(each * np.arange(clients, dtype=np.int32), np.full(clients, each, np.int32))
    n, twice = each * clients, {"x": np.concatenate([x, x]), "y": np.concatenate([y, y])}
    index = np.arange(n, dtype=np.int32)
    return FederatedData("drawn", twice, classes, index, {"train": ranges}, {"test": len(x) + index})


def close(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    """Each array differs from what is wanted by less than that share of the largest number in it."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * max(float(np.abs(wanted).max()), 1e-3))
