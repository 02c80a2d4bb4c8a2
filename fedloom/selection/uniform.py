"""Uniform selection: different clients at random, drawn anew every round (McMahan et al. 2017, Algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedloom.selection.random_order import shuffled

if TYPE_CHECKING:
    from jaxtyping import Int, UInt32


def uniform(
    seeds: UInt32[np.ndarray, " X"],
    rounds: Int[np.ndarray, " R"],
    sizes: Int[np.ndarray, " K"],
    m: int,  # noqa: ARG001
    count: int,
) -> Int[np.ndarray, "R X count"]:
    """Return the first clients of a new shuffle in every round.

    The arguments are those of :class:`fedloom.selection.Selection`.
    """
    return shuffled(seeds, rounds, len(sizes), count)
