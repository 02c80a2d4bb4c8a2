"""Clients' own models: local work may keep what it needs between rounds."""

from typing import Any

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.combine import median
from fedloom.errors import ArgumentError
from fedloom.local import private, sgd
from fedloom.mixing import gossip

TASK = fl.tasks.two_nn(inputs=4, classes=3)


def test_private_layers_along_a_ring_never_mix(generated: Any) -> None:
    """The first layers become more alike along the ring, while each output layer is that of training alone."""
    data = generated([12, 9, 15, 18])
    work = private("output", sgd(lr=0.1, batch_size=4, period=3))
    method = fl.Method(work, fl.routing.own_models(gossip("complete", 4)), fraction=1.0).checked()
    run = fl.run(data, TASK, method, rounds=1, evaluate=["test"], engine=fl.engines.compiled(devices=1))
    alone = fl.run(data, TASK, fl.dpa_sgd(np.eye(4), lr=0.1, batch_size=4, period=3), rounds=1, evaluate=["test"])
    models = [run.of(client).params for client in range(4)]
    for client in range(4):
        mine = alone.of(client).params["output"]["w"]
        np.testing.assert_allclose(models[client]["output"]["w"], mine, rtol=1e-5, atol=1e-6)
    first = [np.asarray(jax.tree.leaves(model["hidden1"])[1]) for model in models]
    np.testing.assert_allclose(first[0], first[3], rtol=1e-5, atol=1e-6)


def test_what_a_mix_has_no_use_for_is_refused() -> None:
    routing = fl.routing.own_models(gossip("ring", 4))
    with pytest.raises(ArgumentError, match="combiner must be the mean where clients mix models of their own"):
        fl.Method(sgd(), routing, combiner=median()).checked()
    with pytest.raises(ArgumentError, match="server must be average with rate 1 where clients mix"):
        fl.Method(sgd(), routing, server=fl.server("adam")).checked()
