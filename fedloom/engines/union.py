"""Union: where clients take one step from the same weights (FedSGD), all their examples are one batch.

Σ_k p_k ∇ℓ_k(w) is the gradient of Σ_k p_k ℓ_k(w): nobody need know which client an example is of but for its share. The
batch is computed in pieces, each of examples of whichever clients, so no row is idle but some of the last piece's; and
in a sweep those by which an experiment's cohort has fewer than another's.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedloom.algorithms.method import Method
from fedloom.engines.axes import over
from fedloom.engines.store import View
from fedloom.local.batches import ROW_MULTIPLE
from fedloom.tasks.task import Batch, Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, PyTree

PIECES = 8  # of an average cohort of unequal clients: half of the last is idle, on average


def takes_one_step(task: Task, algorithm: Method, example: Batch) -> bool:
    """Whether a round is one step of plain SGD from the same weights, of a model that has no state and draws nothing at
    random, and whose updates are added up as they come.
    """
    summed = not algorithm.keeps_updates and algorithm.combiner.trusting
    one_model = not algorithm.routing.has_several_outputs
    single = algorithm.local.is_single_gradient and summed and one_model
    return single and not _has_state_or_chance(task, example)


def _has_state_or_chance(task: Task, example: Batch) -> bool:
    key = jax.random.key(0)
    variables = jax.eval_shape(task.init, key)
    batch = {name: jax.ShapeDtypeStruct((2, *a.shape[1:]), a.dtype) for name, a in example.items()}
    program = jax.make_jaxpr(lambda k, v, b: task.loss(v, b, k)[0])(key, variables, batch).jaxpr
    drawn = any(program.invars[0] is v for equation in program.eqns for v in equation.invars)
    return bool(jax.tree.leaves(variables.state)) or drawn


def piece_length(sizes: np.ndarray, m: int, most: float) -> int:
    """How many rows a piece has, for cohorts of m clients of these sizes, if so many fit at most.

    >>> piece_length(np.array([600, 600]), 10, most=4000), piece_length(np.array([2, 30]), 10, most=4000)
    (3000, 32)
    >>> piece_length(np.array([67, 68]), 10, most=4000)  # nearly equal: at most as much is idle
    680
    """
    whole, usual = int(sizes.max()) * m, float(sizes.mean()) * m
    if whole > (1 + 0.5 / PIECES) * usual:
        rows = int(np.ceil(usual / PIECES / ROW_MULTIPLE)) * ROW_MULTIPLE
        return max(1, min(rows, whole, int(most)))
    return -(-whole // -(-whole // max(1, min(whole, int(most)))))


def union(
    task: Task,
    rows: int,
    view: View,
    params: PyTree,
    clients: Int[Array, "X m"],
    shares: Float[Array, "X m"],
) -> tuple[PyTree, Float[Array, " X"]]:
    """Σ share · ∇ℓ over all examples of each experiment's clients, and how many rows were computed.

    Arguments:
        rows: of a piece.
        params: the weights of each experiment.
        clients: who they are; -1 is nobody.
        shares: what the loss of each example of a client counts.
    """
    n = jnp.where(clients >= 0, view.size[clients], 0)
    ends = jnp.cumsum(n, axis=1)
    pieces = -(-ends[:, -1].max() // rows)
    one = over(len(clients), partial(_piece, task, rows, view), [False, True, True, True, True, True])

    def add(i: Array, total: PyTree) -> PyTree:
        return jax.tree.map(jnp.add, total, one(i, params, clients, n, ends, shares))

    total = lax.fori_loop(0, pieces, add, jax.tree.map(jnp.zeros_like, params))
    return total, jnp.full(len(clients), pieces * rows, jnp.float32)


def _piece(
    task: Task,
    rows: int,
    view: View,
    i: Int[Array, ""],
    params: PyTree,
    clients: Int[Array, " m"],
    n: Int[Array, " m"],
    ends: Int[Array, " m"],
    shares: Float[Array, " m"],
) -> PyTree:
    """The gradient of one piece of one experiment's batch."""
    at = i * rows + jnp.arange(rows, dtype=ends.dtype)
    whose = jnp.minimum(jnp.searchsorted(ends, at, side="right"), len(clients) - 1)
    present = at < ends[-1]
    place = jnp.where(present, at - (ends - n)[whose], 0)
    row = view.index[view.start[clients[whose]] + place]
    batch = {name: column[row] for name, column in view.columns.items()}
    share = jnp.where(present, shares[whose], 0)

    def loss(params: PyTree) -> Any:
        return jnp.sum(share * task.loss(Variables(params, {}), batch, jax.random.key(0))[0])

    return jax.grad(loss)(params)
