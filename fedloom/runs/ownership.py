"""Ownership: whose model a run's variables are, and each client's own model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.algorithms import Method
from fedloom.runs.model import nested
from fedloom.tasks import Variables
from fedloom.trees import flatten

SHARED, BESIDE_OWN, PARTS = "shared", "shared, beside each client's own", "shared parts"
CLUSTERS, EACH = "one for each cluster, stacked", "one for each client, stacked"
"""Whose model a run's variables are, and a file that holds them:

- SHARED: all clients use it;
- BESIDE_OWN: it is complete and shared, but each client uses a model of its own (Ditto);
- PARTS: it lacks the layers that are each client's own (FedPer, FedRep, FedBN), so that no client can use it;
- CLUSTERS: the models of all clusters, along the first axis of each array (IFCA);
- EACH: the models of all clients, along the first axis of each array.
"""


def whose(algorithm: Method, variables: Variables, clients: int) -> dict[str, Any]:
    """Return what a record says of whose model is stored: ``models``, ``own_layers`` and ``clients``."""
    layers: list[str] = []
    if algorithm.routing.exchanges_models:
        models = EACH
    elif algorithm.routing.has_several_outputs:
        models = CLUSTERS
    else:
        models = SHARED if not algorithm.is_personal else BESIDE_OWN if algorithm.has_shared_model else PARTS
        layers = sorted(algorithm.local.private_leaves(variables))
    return {"models": models, "own_layers": layers, "clients": clients}


def owned(algorithm: Method, state: Any) -> Callable[[int], Variables]:
    """Return a function from the number of a client to the client's model."""
    return partial(_own, algorithm, state) if algorithm.is_personal else partial(shared_by_all, state.variables)


def _own(algorithm: Method, state: Any, client: int) -> Variables:
    own: Variables = jax.tree.map(np.asarray, algorithm.model(state, jnp.int32(client)))
    return own


def shared_by_all(variables: Variables, client: int) -> Variables:  # noqa: ARG001
    """Return the model that all clients use."""
    return variables


def one_of(variables: Variables, client: int) -> Variables:
    """Return a client's model, of the stacked models of all clients."""
    own: Variables = jax.tree.map(lambda a: a[client], variables)
    return own


OWNED = {SHARED: shared_by_all, EACH: one_of}
"""Whose models are stored → a function that returns a client's model from them, where that is possible."""


def without(variables: Variables, layers: Sequence[str]) -> Variables:
    """Return a model without some of its arrays.

    >>> model = Variables({"a": {"w": np.ones(2)}, "b": {"w": np.zeros(3)}}, {})
    >>> list(without(model, ["params.b.w"]).params)
    ['a']
    """
    return nested((name, array) for name, array in flatten(variables).items() if name not in layers)
