"""Close a round: from updates and weights to the next models.

    w ← server(w, Δ),   Δ = Σ_k w_k Δ_k / Σ_k w_k,   or what another combiner makes of all Δ_k

The compiled engine, worker pools, MPI and the network all use these functions. They are about one output of one
experiment; engines add axes by ``vmap``. A round in which no update has a positive weight changes nothing but the
number of the round: that rule is in :func:`step` and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import optax

from fedloom.algorithms.server import Server
from fedloom.tasks.task import Variables
from fedloom.trees import where

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, PyTree

    Output = tuple[Variables, PyTree, dict[str, PyTree]]


def divide(total: Variables, weight: Float[Array, ""]) -> Variables:
    """Return Σ w_k Δ_k / Σ w_k, and the sum as it is if no update counts.

    Args:
        total: Σ w_k Δ_k.
        weight: Σ w_k, or another number that the weighting divides by.
    """
    counted = jnp.where(weight > 0, weight, 1)
    quotient: Variables = jax.tree.map(lambda a: a / counted, total)
    return quotient


def step(
    server: Server,
    output: Output,
    update: Variables,
    sums: dict[str, PyTree],
    clients: int | Array,
    counted: Bool[Array, ""] | bool,
) -> Output:
    """Return an output after the server's step.

    Args:
        server: the server's optimiser. It sees the negative of the update as the gradient.
        output: the model, what the optimiser remembers, and what clients are sent beside the model.
        update: the combined update. Its non-trainable state is added as it is.
        sums: the sum of all changes to what clients are sent beside the model; divided by the number of clients.
        clients: K, the number of clients.
        counted: True if at least one update had a positive weight. Otherwise the output stays as it is.
    """
    variables, memory, broadcast = output
    counted = jnp.asarray(counted)
    gradient = jax.tree.map(jnp.negative, update.params)
    change, next_memory = server.transformation().update(gradient, memory, variables.params)
    if jax.tree.leaves(next_memory):  # select before the addition, or the compiler may fuse it with the product
        change = jax.tree.map(lambda a: jnp.where(counted, a, 0), change)
    state = jax.tree.map(jnp.add, variables.state, update.state)
    told = jax.tree.map(lambda a, changes: a + changes / clients, broadcast, sums)
    ahead = Variables(optax.apply_updates(variables.params, change), state), next_memory, told
    closed: Output = where(counted, ahead, output)
    return closed
