"""Fixed selection: the same clients in every round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedloom.selection.random_order import shuffled

if TYPE_CHECKING:
    from jaxtyping import Int, UInt32


def fixed(
    seeds: UInt32[np.ndarray, " X"],
    rounds: Int[np.ndarray, " R"],
    sizes: Int[np.ndarray, " K"],
    m: int,  # noqa: ARG001
    count: int,
) -> Int[np.ndarray, "R X count"]:
    """Return the first clients of one shuffle, which the seed decides.

    The arguments are those of :class:`fedloom.selection.Selection`.
    """
    return np.repeat(shuffled(seeds, np.zeros(1, np.int32), len(sizes), count), len(rounds), axis=0)
