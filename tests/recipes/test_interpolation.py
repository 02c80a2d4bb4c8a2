from dataclasses import replace

import jax
import numpy as np
import pytest

import fedloom.recipes.interpolation as interpolation
from fedloom.data import mnist
from fedloom.recipes.conduct import Conduct
from fedloom.recipes.interpolation import interpolated, losses
from fedloom.recipes.mcmahan2017 import MCMAHAN2017
from fedloom.recipes.part import Found
from fedloom.runs import Experiment
from fedloom.tasks import logistic

SOME = replace(mnist(), train=np.arange(3000))


def test_the_ends_are_the_models_themselves() -> None:
    task = logistic(inputs=784, classes=10)
    w, v = (task.init(jax.random.key(seed)) for seed in (0, 1))
    dataset = SOME
    found = losses(task, dataset, w, v, np.array([0.0, 0.5, 1.0]))
    x, y = (dataset.columns[name][dataset.train] for name in ("x", "y"))
    for model, loss in ((v, found[0]), (w, found[2])):
        assert loss == pytest.approx(float(task.metrics(model, {"x": x, "y": y})["loss"].mean()), rel=1e-4)
    mixed = jax.tree.map(lambda a, b: (a + b) / 2, w, v)
    assert found[1] == pytest.approx(float(task.metrics(mixed, {"x": x, "y": y})["loss"].mean()), rel=1e-4)


def test_convex_losses_only_gain_from_averaging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpolation, "POINTS", 8)
    monkeypatch.setattr(interpolation, "read", lambda _: SOME)
    e = Experiment(model="logistic", epochs=2, batch_size=50, fraction=1.0, rounds=1)
    columns = interpolated(e, Conduct())
    assert len(columns["theta"]) == 8
    for name in ("shared", "independent"):
        inside = [loss for t, loss in zip(columns["theta"], columns[name], strict=True) if 0 <= t <= 1]
        assert max(inside) == max(inside[0], inside[-1])


def test_figure_1_trains_as_the_paper_did() -> None:
    [series] = MCMAHAN2017.part("figure1").series(Found())
    e = series.experiment
    assert (e.model, e.epochs, e.batch_size, e.lr, e.rounds) == ("2nn", 20, 50, 0.1, 1)
