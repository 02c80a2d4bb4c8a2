"""Clusters compose with every local work, server and combiner: with one cluster they are federated averaging."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from often import often

import fedloom as fl
from fedloom.combine import by_accuracy, clipped, median, uniform
from fedloom.errors import ArgumentError
from fedloom.local import ditto, private, proximal, scaffold, sgd

OPTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "scaffold": lambda: {"local": scaffold(sgd(lr=0.1, batch_size=4))},
    "proximal": lambda: {"local": proximal(0.3, sgd(lr=0.1, batch_size=4))},
    "ditto": lambda: {"local": ditto(0.3, sgd(lr=0.1, batch_size=4))},
    "private layers": lambda: {"local": private("output", sgd(lr=0.1, batch_size=4))},
    "median": lambda: {"combiner": median(), "lr": 0.1, "batch_size": 4},
    "clipped": lambda: {"combiner": clipped(0.05), "lr": 0.1, "batch_size": 4},
    "momentum": lambda: {"server": fl.server("momentum", lr=0.7), "lr": 0.1, "batch_size": 4},
    "adam": lambda: {"server": fl.server("adam"), "lr": 0.1, "batch_size": 4},
}
TASK = fl.tasks.logistic(inputs=4, classes=3)


def leaves(run: fl.Run) -> list[np.ndarray]:
    return [np.asarray(a) for a in jax.tree.leaves(run.variables)]


@pytest.mark.parametrize("name", often(OPTIONS, ("scaffold", "private layers", "median", "adam")))
def test_one_cluster_is_federated_averaging(generated: Any, name: str) -> None:
    data, options = generated([12, 7, 9, 15]), OPTIONS[name]
    task = fl.tasks.two_nn(inputs=4, classes=3) if name == "private layers" else TASK
    settings = {"rounds": 3, "evaluate": ["test"], "engine": fl.engines.compiled(devices=1)}
    plain = fl.run(data, task, fl.fedavg(fraction=0.75, **options()), **settings)
    clustered = fl.run(data, task, fl.ifca(1, fraction=0.75, **options()), **settings)
    for expected, found in zip(leaves(plain), leaves(clustered), strict=True):
        np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-6)
    for client in range(len(data)):
        each = zip(jax.tree.leaves(plain.of(client)), jax.tree.leaves(clustered.of(client)), strict=True)
        for expected, found in each:
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_clusters_weights_compare_its_own_clients(validated: Any) -> None:
    """With one cluster, weights by validation accuracy are those of federated averaging."""
    data = validated([12, 9, 15, 18])
    settings = {"rounds": 2, "evaluate": ["test"], "engine": fl.engines.compiled(devices=1)}
    options = {"fraction": 1.0, "weighting": by_accuracy(), "lr": 0.1, "batch_size": 4}
    plain, clustered = (
        fl.run(data, TASK, make(**options), **settings) for make in (fl.fedavg, lambda **o: fl.ifca(1, **o))
    )
    for expected, found in zip(leaves(plain), leaves(clustered), strict=True):
        np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-6)


def test_two_devices_give_the_numbers_of_one(generated: Any) -> None:
    data = generated([12, 7, 9, 15, 6])
    method = fl.ifca(2, fraction=1.0, local=scaffold(sgd(lr=0.1, batch_size=4)), weighting=uniform)
    runs = [
        fl.run(data, TASK, method, rounds=3, evaluate=["test"], engine=fl.engines.compiled(devices=d)) for d in (1, 2)
    ]
    for one, two in zip(*map(leaves, runs), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)


def test_a_weighting_belongs_to_the_routing() -> None:
    with pytest.raises(ArgumentError, match="weighting must be given to the routing"):
        fl.fedavg(routing=fl.routing.clusters(2), weighting=uniform)
