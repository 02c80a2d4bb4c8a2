"""Round-robin selection: the clients in the order of their numbers, beginning again after the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int, UInt32


def round_robin(
    seeds: UInt32[np.ndarray, " X"], rounds: Int[np.ndarray, " R"], sizes: Int[np.ndarray, " K"], m: int, count: int
) -> Int[np.ndarray, "R X count"]:
    """Return the next m clients in every round.

    The arguments are those of :class:`fedloom.selection.Selection`.

    >>> round_robin(np.array([0], np.uint32), np.arange(3), np.ones(5), m=2, count=2)[:, 0].tolist()
    [[0, 1], [2, 3], [4, 0]]
    """
    places = rounds.astype(np.int64)[:, None, None] * m + np.arange(count)
    return np.repeat(places % len(sizes), len(seeds), axis=1).astype(np.int32)
