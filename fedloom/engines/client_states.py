"""Client states: what clients keep between rounds, with memory for those that have taken part and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.algorithms.method import ClientStates
from fedloom.trees import nbytes

if TYPE_CHECKING:
    from jaxtyping import Array, Int, PyTree

ROOM = 2**26  # bytes of rows that are made at once, however few clients are visited


def enter(kept: ClientStates, cohorts: Int[np.ndarray, "rounds X m"]) -> ClientStates:
    """Return the states with a row for every client of the coming rounds.

    All arrays have a leading axis of experiments. The number of rows is doubled when it does not suffice, so that few
    different programs are compiled.
    """
    place = np.array(kept.place)
    for mine, visitors in zip(place, cohorts.swapaxes(0, 1), strict=True):
        flat = visitors.ravel()
        first = np.sort(np.unique(flat, return_index=True)[1])  # in the order of their coming
        new = [client for client in flat[first] if client >= 0 and not mine[client]]
        mine[new] = mine.max() + 1 + np.arange(len(new))
    return ClientStates(jnp.asarray(place), widened(kept.rows, int(place.max()) + 1, place.shape[1] + 1))


def widened(rows: PyTree, needed: int, most: int) -> PyTree:
    """Return rows with room for a number of clients; new rows are like row 0."""
    x, now = jax.tree.leaves(rows)[0].shape[:2]
    if needed <= now:
        return rows
    each = max(1, nbytes(rows) // (x * now))
    room = min(most, max(needed, 2 * now, ROOM // each))
    return jax.tree.map(
        lambda a: jnp.concatenate([a, jnp.broadcast_to(a[:, :1], (x, room - now, *a.shape[2:]))], axis=1), rows
    )


def taken(kept: ClientStates, cohort: Int[Array, "X m"]) -> PyTree:
    """Return what each client of a cohort (-1 is none) keeps: (X, m, …)."""
    rows = jax.vmap(lambda place, clients: jnp.where(clients >= 0, place[clients], 0))(kept.place, cohort)
    return jax.tree.map(lambda a: jax.vmap(lambda a, r: a[r])(a, rows), kept.rows)


def returned(kept: ClientStates, cohort: Int[Array, "X m"], keeps: PyTree) -> ClientStates:
    """Return the states with what each client of a cohort keeps now."""

    def put(a: Array, new: Array, place: Array, clients: Array) -> Array:
        return a.at[jnp.where(clients >= 0, place[clients], len(a))].set(new, mode="drop")

    rows = jax.tree.map(lambda a, new: jax.vmap(put)(a, new, kept.place, cohort), kept.rows, keeps)
    return replace(kept, rows=rows)
