"""A task whose every step can be computed by hand: ℓ(a, b; x) = ½ (a + b - x)², in a body a and a head b."""

from functools import cache

import jax.numpy as jnp
import numpy as np

from fedloom.data import FederatedData, Ranges
from fedloom.tasks import Task, Variables


@cache
def quadratic(a: float = 0.0, b: float = 0.0) -> Task:
    """The task, from a beginning."""

    def init(key):  # noqa: ARG001
        return Variables({"body": {"w": jnp.float32(a)}, "output": {"w": jnp.float32(b)}}, {})

    def each(variables, batch):
        params = variables.params
        return 0.5 * (params["body"]["w"] + params["output"]["w"] - batch["x"]) ** 2

    def loss(variables, batch, key):  # noqa: ARG001
        return each(variables, batch), variables.state

    def metrics(variables, batch):
        losses = each(variables, batch)
        return {"loss": losses, "accuracy": (losses < 0.5) * 1.0, "count": jnp.ones_like(losses)}

    return Task("quadratic", init, loss, metrics)


def points(values: list[float], each: int = 2) -> FederatedData:
    """Client k has so many examples, all x = values[k], and one more for testing."""
    clients, size = len(values), each + 1
    x = np.repeat(np.array(values, np.float32), size)
    start = np.arange(clients, dtype=np.int32) * size
    parts = {"train": Ranges(start, np.full(clients, each, np.int32)),
             "test": Ranges(start + each, np.ones(clients, np.int32))}  # fmt: skip
    index = np.arange(clients * size, dtype=np.int32)
    return FederatedData("points", {"x": x, "y": np.zeros(len(x), np.int32)}, 1, index, parts, {})


def held_out(values: list[float], tests: list[float]) -> FederatedData:
    """Client k has two training examples with the value values[k]; all test examples belong to no client."""
    x, start = np.array([*np.repeat(values, 2), *tests], np.float32), 2 * np.arange(len(values), dtype=np.int32)
    parts = {"train": Ranges(start, np.full(len(values), 2, np.int32))}
    rows = np.arange(len(x), dtype=np.int32)
    central = {"test": rows[2 * len(values) :]}
    return FederatedData("held out", {"x": x, "y": np.zeros(len(x), np.int32)}, 1, rows, parts, central)
