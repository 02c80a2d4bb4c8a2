"""What tests of clients share: a broadcast, one client's examples, and the same work as the compiled engine does it."""

from typing import Any

import numpy as np

import fedloom as fl
from fedloom.clients import Broadcast, Client, Weights
from fedloom.data import FederatedData
from fedloom.engines.station import NativeStation
from fedloom.tasks import Batch, Task
from fedloom.trees import flatten

WORK = fl.fedavg(fraction=1.0, lr=0.1, epochs=2, batch_size=4)
SEED = 7


def told(weights: Weights, *, lr: float = 0.1, epochs: int = 1, batch_size: int | None = 4, key=(1, 2)) -> Broadcast:
    return Broadcast(weights, 0, lr, epochs, batch_size, key)


def of(data: FederatedData, who: int = 0) -> dict[str, Batch]:
    """A client's training examples."""
    rows = data.examples("train", who)
    return {"train": {name: column[rows] for name, column in data.columns.items()}}


def first_round(data: FederatedData, weights: Weights) -> Broadcast:
    """What the first client is sent in the first round of a run."""
    station = NativeStation(data, Task("none", *[lambda *_: None] * 3), [WORK], [SEED])
    return station.broadcast(WORK, weights, 0, 0, 0)


def compiled_round(data: FederatedData, task: Task) -> dict[str, np.ndarray]:
    """What the compiled engine makes of a model in that round, where there is one client, by dotted names."""
    done = fl.run(data, task, WORK, rounds=1, seed=SEED, evaluate=["train"])
    return {n.split(".", 1)[1]: np.asarray(a) for n, a in flatten(done.variables).items()}


def same(found: Weights, wanted: Weights) -> None:
    """Bit for bit."""
    assert found.keys() == wanted.keys()
    for name, array in found.items():
        assert array.tobytes() == np.asarray(wanted[name], array.dtype).tobytes(), name


def near(found: Weights, wanted: Weights, tolerance: float = 1e-5) -> None:
    assert found.keys() >= wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=tolerance, err_msg=name)


def in_either_order(make: Any, one: dict[str, Batch], other: dict[str, Batch], lr: float = 0.1) -> None:
    """Clients of one process answer the same whoever was there before, and however often they are asked."""

    def asked(client: Client, key: tuple[int, int]) -> Weights:
        return client.fit(told(begun, lr=lr, epochs=2, key=key)).weights

    first: Client = make(one)
    begun = first.weights()
    alone = asked(first, (1, 2)), asked(make(other), (3, 4))
    swapped = [asked(make(other), (3, 4)), asked(make(one), (1, 2))][::-1]
    again = asked(first, (1, 2))
    for mine, wanted in zip([*swapped, again], [*alone, alone[0]], strict=True):
        same(mine, wanted)
    assert any(not np.array_equal(alone[0][n], alone[1][n]) for n in begun)
