"""Keeping: what clients keep between rounds, with room for those that are visited and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.algorithms.algorithm import Kept
from fedloom.trees import nbytes

if TYPE_CHECKING:
    from jaxtyping import Array, Int, PyTree

ROOM = 2**26  # bytes of rows that are made at once, however few clients are visited


def enter(kept: Kept, cohorts: Int[np.ndarray, "rounds X m"]) -> Kept:
    """The same with a row for every client of the coming rounds; all arrays have a leading axis of experiments.

    Rows are made twice as many when they do not suffice, so that few different programs are compiled.
    """
    place = np.array(kept.place)
    for mine, visitors in zip(place, cohorts.swapaxes(0, 1), strict=True):
        flat = visitors.ravel()
        first = np.sort(np.unique(flat, return_index=True)[1])  # in the order of their coming
        new = [client for client in flat[first] if client >= 0 and not mine[client]]
        mine[new] = mine.max() + 1 + np.arange(len(new))
    return Kept(jnp.asarray(place), widened(kept.rows, int(place.max()) + 1, place.shape[1] + 1))


def widened(rows: PyTree, needed: int, most: int) -> PyTree:
    """Rows with room for so many: new ones are as the first."""
    x, now = jax.tree.leaves(rows)[0].shape[:2]
    if needed <= now:
        return rows
    each = max(1, nbytes(rows) // (x * now))
    room = min(most, max(needed, 2 * now, ROOM // each))
    return jax.tree.map(
        lambda a: jnp.concatenate([a, jnp.broadcast_to(a[:, :1], (x, room - now, *a.shape[2:]))], axis=1), rows
    )


def taken(kept: Kept, cohort: Int[Array, "X m"]) -> PyTree:
    """What each of a cohort (-1 is nobody) keeps: (X, m, …)."""
    rows = jax.vmap(lambda place, clients: jnp.where(clients >= 0, place[clients], 0))(kept.place, cohort)
    return jax.tree.map(lambda a: jax.vmap(lambda a, r: a[r])(a, rows), kept.rows)


def returned(kept: Kept, cohort: Int[Array, "X m"], keeps: PyTree) -> Kept:
    """The same with what each of a cohort keeps now."""

    def put(a: Array, new: Array, place: Array, clients: Array) -> Array:
        return a.at[jnp.where(clients >= 0, place[clients], len(a))].set(new, mode="drop")

    rows = jax.tree.map(lambda a, new: jax.vmap(put)(a, new, kept.place, cohort), kept.rows, keeps)
    return replace(kept, rows=rows)
