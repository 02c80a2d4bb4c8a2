"""Clients whose epochs differ: every engine gives the same, and each client makes as many passes as it is to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import jax
import numpy as np
import pytest
from hurry import hurried
from launched import MISSING
from product import engines
from product.cases import ENGINES, NOT_COMPARED, REFERENCE, SIZES, TOLERANCE, WORK, case
from product.compare import difference

import fedloom as fl
from fedloom.local.epochs import Epochs

pytestmark = [
    pytest.mark.filterwarnings(f"default:{MISSING[:14]}"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # of Ray
]
DRAWN = "uniform:1:5"
OFTEN = ("3 lanes", "network")


def differing(epochs: object) -> engines.Case:
    """Return federated averaging of all clients, with FedProx's penalty, where clients differ."""
    algorithm = fl.fedprox(0.5, **{**WORK, "epochs": epochs}, fraction=1.0)
    return replace(case("fedprox"), algorithm=algorithm)


@pytest.fixture(scope="module", autouse=True)
def _processes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as here:
        here.setenv("XLA_FLAGS", hurried()["XLA_FLAGS"])
        yield
        engines.close()


@pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in ENGINES]
)
def test_every_engine_gives_the_same(engine: str) -> None:
    if engine == "2 devices" and len(jax.devices()) < 2:
        pytest.skip("there is one device")
    found = difference(ENGINES[engine](differing(DRAWN)), REFERENCE(differing(DRAWN)), NOT_COMPARED.get(engine, ()))
    assert found.models <= TOLERANCE
    assert found.history <= TOLERANCE
    assert not found.missing


def test_each_client_makes_its_own_number_of_passes() -> None:
    """A client that trains alone ends where it ends if everybody makes as many passes as it does."""
    each = Epochs(DRAWN).of(len(SIZES))
    assert len(set(each.tolist())) > 2

    def alone(epochs: object) -> fl.Run:
        return REFERENCE(replace(case("local"), algorithm=fl.local_only(**{**WORK, "epochs": epochs}, fraction=1.0)))

    run = alone(DRAWN)
    for k, epochs in enumerate(each.tolist()):
        alike = alone(epochs)
        jax.tree.map(np.testing.assert_array_equal, run.of(k), alike.of(k))
    steps = sum(int(e) * -(-n // WORK["batch_size"]) for e, n in zip(each, SIZES, strict=True))
    assert run.history.last("steps") == steps * case("local").rounds
