"""The record of users' models, and the comparison of what contenders have learned."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import typer

ABOUT = {"seed": 0, "device": "a machine", "versions": {"torch": "1", "jax": "2"}}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    monkeypatch.setattr(sys, "argv", ["users_models.py", "--batches", "8"])
    import users_models

    return users_models


def row(network: str, seconds: float) -> dict[str, Any]:
    return {"library": "PyTorch", "network": network, "batch": 8, "seconds_a_round": {"fedloom": [seconds]}}


def test_a_contender_with_another_loss_is_named(bench: ModuleType) -> None:
    """The margin is a twentieth of what the library's own loop has gained, 0.5 here."""
    losses = {"fedloom": 1.52, "loop": 1.5, "parallel": 1.48, "compiled": 1.53, "stacked": float("nan")}
    assert list(bench.disagreements(2.0, losses)) == ["compiled", "stacked"]


def test_a_record_keeps_earlier_rows(bench: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    bench.begin(file, ABOUT, fresh=False).add([row("LeNet", 1.0), row("GRU", 2.0)])
    bench.begin(file, ABOUT | {"versions": {"torch": "1", "flax": "3"}}, fresh=False).add([row("GRU", 3.0)])
    found = json.loads(file.read_text())
    assert [(r["network"], r["seconds_a_round"]["fedloom"]) for r in found["rows"]] == [
        ("LeNet", [1.0]),
        ("GRU", [3.0]),
    ]
    assert found["rows"][0]["command"] == "python benchmarks/users_models.py --batches 8"
    assert found["versions"] == {"torch": "1", "jax": "2", "flax": "3"}


def test_a_record_is_not_mixed(bench: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    bench.begin(file, ABOUT, fresh=False).add([row("LeNet", 1.0)])
    other = ABOUT | {"versions": {"torch": "1.1"}, "seed": 1}
    with pytest.raises(typer.BadParameter, match="measured with another torch, seed"):
        bench.begin(file, other, fresh=False)
    assert bench.begin(file, other, fresh=True).rows == {}


def test_labels_can_be_learned(bench: ModuleType) -> None:
    """A language model's label follows from its token; images of a class have a pattern in common."""
    networks = bench.networks("cpu")
    x, y = networks["GRU"].draw(2, 50, seed=0)
    assert x.shape == y.shape == (2, 50, 40)
    assert len({*zip(x.flat, y.flat, strict=True)}) == 90
    x, y = networks["LeNet"].draw(2, 400, seed=0)
    means = np.stack([x[half][y[half] == 3].mean(0) for half in (0, 1)])
    assert np.corrcoef(means.reshape(2, -1))[0, 1] > 0.8


def test_fedloom_takes_the_batches_of_the_loops(bench: ModuleType) -> None:
    """The orders are permutations that differ by round and client."""
    orders = bench.orders(2, 6, seed=0)
    assert orders.shape == (bench.DRAWN, 2, 6)
    assert (np.sort(orders) == np.arange(6)).all()
    assert len({tuple(order) for order in orders.reshape(-1, 6)}) > bench.DRAWN
