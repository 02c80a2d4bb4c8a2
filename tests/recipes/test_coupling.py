"""The effect of the regulariser, on a small run."""

from typing import Any

import pytest

import fedloom.recipes.coupling as coupling
from fedloom.recipes.conduct import Conduct
from fedloom.recipes.ring_setting import BASE


def test_a_stronger_regulariser_changes_output_layers_more(monkeypatch: pytest.MonkeyPatch, generated: Any) -> None:
    data = generated([10, 10, 10, 10])
    monkeypatch.setattr(coupling, "federated", lambda _: data)
    e = BASE.replace(algorithm="dpa-sgd-mtl", model="logistic", rounds=2, every=2, lambda1=0.1)
    columns = coupling.effect(e, Conduct())
    assert columns["lambda1"] == [0.0, 1e-4, 0.1]
    assert columns["change"][0] == 0
    assert 0 < columns["change"][1] < columns["change"][2] / 100
    assert len(columns["accuracy"]) == 3
