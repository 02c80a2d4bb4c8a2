"""Order: sorting and gathering by group, in linear time, for tens of millions of examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from jaxtyping import Int

SHORT = 2**16  # NumPy sorts integers of 16 bits in linear time


def grouped(keys: Int[np.ndarray, " n"], groups: int) -> Int[np.ndarray, " n"]:
    """The places of all keys, group after group, each group in its old order: a stable argsort in linear time.

    >>> grouped(np.array([2, 0, 2, 1]), 3).tolist()
    [1, 3, 0, 2]
    """
    if np.all(keys[1:] >= keys[:-1]):
        return np.arange(len(keys))
    if groups <= SHORT:
        return np.argsort(keys.astype(np.uint16), kind="stable")
    places = np.arange(len(keys), dtype=np.int32)
    by_group = sparse.coo_array((places, (keys, places)), shape=(groups, len(keys))).tocsr()
    return by_group.data


def starts(sizes: Int[np.ndarray, " groups"]) -> Int[np.ndarray, " groups"]:
    """Where each group starts when groups of these sizes stand one after another.

    >>> starts(np.array([2, 3, 1])).tolist()
    [0, 2, 5]
    """
    return np.cumsum(sizes) - sizes


def within(sizes: Int[np.ndarray, " groups"]) -> Int[np.ndarray, " n"]:
    """For each member of groups that stand one after another, its place in its group.

    >>> within(np.array([2, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.arange(int(np.sum(sizes))) - np.repeat(starts(sizes), sizes)


def gather(
    index: Int[np.ndarray, " n"], start: Int[np.ndarray, " groups"], size: Int[np.ndarray, " groups"]
) -> Int[np.ndarray, " m"]:
    """The pieces of an index, one after another.

    >>> gather(np.arange(10) * 10, np.array([7, 1]), np.array([2, 3])).tolist()
    [70, 80, 10, 20, 30]
    """
    return index[np.repeat(start, size) + within(size)]


def shuffled(sizes: Int[np.ndarray, " groups"], rng: np.random.Generator) -> Int[np.ndarray, " n"]:
    """Places of groups that stand one after another, each group's shuffled.

    >>> shuffled(np.array([3, 2]), np.random.default_rng(0)).tolist()
    [2, 0, 1, 4, 3]
    """
    order = rng.permutation(int(np.sum(sizes)))
    owner = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return order[grouped(owner[order], len(sizes))]


def apportion(weights: np.ndarray, total: int) -> Int[np.ndarray, " groups"]:
    """Whole numbers in proportion to the weights that add up to the total, by largest remainders.

    >>> apportion(np.array([1.0, 1.0, 2.0]), 10).tolist()
    [3, 2, 5]
    """
    exact = total * (weights / weights.sum())
    sizes = np.floor(exact).astype(np.int64)
    left = total - int(sizes.sum())
    sizes[np.argsort(sizes - exact, kind="stable")[:left]] += 1
    return sizes


def raised(sizes: Int[np.ndarray, " groups"], least: int) -> Int[np.ndarray, " groups"]:
    """The same sum with nobody below the least: those who have more give, in proportion to what they have more.

    >>> raised(np.array([0, 3, 7]), 2).tolist()
    [2, 3, 5]
    """
    short = np.maximum(least - sizes, 0)
    if not short.any():
        return sizes
    return sizes + short - apportion(np.maximum(sizes - least, 0), int(short.sum()))
