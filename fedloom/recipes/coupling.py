"""Coupling: how strongly the regulariser of He et al. (2019) acts on output layers, on a ring and at a server."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from fedloom.recipes.conduct import Conduct
from fedloom.recipes.repeated import finished
from fedloom.recipes.series import Columns
from fedloom.routing import RelatedOutputs, Routing
from fedloom.runs.experiment import Experiment
from fedloom.runs.prepare import federated
from fedloom.runs.result import Run


def effect(e: Experiment, conduct: Conduct) -> Columns:
    """Train without the regulariser, with a thousandth of the experiment's λ₁ and with λ₁, and compare the runs.

    All runs have the same seed. The weak regulariser shows how much training amplifies a difference of any size.

    Returns:
        ``lambda1``: the strengths; ``change``: ‖w(λ₁) - w(0)‖ / ‖w(0)‖ over all workers' output layers w;
        ``accuracy``: the mean test accuracy in the end.
    """
    data, strengths = federated(e), [0.0, e.lambda1 / 1000, e.lambda1]
    layers, accuracies = [], []
    for strength in strengths:
        mine = e.replace(lambda1=strength)
        algorithm = mine.build_algorithm()
        work = mine.build_task(data), [algorithm], [e.seed], mine.settings()
        [run] = finished(conduct.whole(conduct.train(data, *work, [f"lambda1 {strength:g}"])))
        layers.append(output_layers(run, algorithm.routing))
        accuracies += [run.history.last(name) for name in run.history.columns if name.endswith("test_accuracy")][:1]
    return {"lambda1": strengths, "change": changes(layers), "accuracy": accuracies}


def output_layers(run: Run, routing: Routing) -> np.ndarray:
    """Return every worker's output layer as a row."""
    assert isinstance(routing, RelatedOutputs)
    every = [run.of(k) for k in range(run.clients)]
    return np.asarray(routing.output_rows(jax.tree.map(lambda *leaves: np.stack(leaves), *every)))


def changes(layers: Sequence[np.ndarray]) -> list[float]:
    """Return the norm of each difference from the first array, relative to the norm of the first.

    >>> changes([np.array([3.0, 4.0]), np.array([3.0, 4.5])])
    [0.0, 0.1]
    """
    first = layers[0]
    return [float(np.linalg.norm(w - first) / np.linalg.norm(first)) for w in layers]
