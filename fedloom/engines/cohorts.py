"""Cohorts: the clients of each round on the host, drawn for many rounds at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedloom.selection import cohorts

ROUNDS, NUMBERS = 256, 2**16  # rounds of a block, and clients in it, at most
BLOCKS = 4  # blocks that are remembered


@dataclass(frozen=True)
class Cohorts:
    """The clients that are asked in each round of some experiments.

    A draw waits until the device is free, so cohorts are drawn in blocks of rounds and remembered.

    Args:
        selection: the way in which clients are selected.
        seeds: of the experiments.
        sizes: the number of training examples of each client.
        m: the number of clients in a round.
        blocks: blocks of rounds that have been drawn.
    """

    selection: str
    seeds: np.ndarray
    sizes: np.ndarray
    m: int
    blocks: dict[int, np.ndarray] = field(default_factory=dict)

    def of_rounds(self, first: int, rounds: int) -> np.ndarray:
        """Return the clients that are asked in the rounds from the first on: (rounds, experiments, m)."""
        length = min(ROUNDS, max(1, NUMBERS // (len(self.seeds) * self.m)))
        wanted = range(first // length, (first + max(rounds, 1) - 1) // length + 1)
        every = np.concatenate([self._block(block, length) for block in wanted])
        return every[first - wanted[0] * length :][:rounds]

    def _block(self, block: int, length: int) -> np.ndarray:
        if block not in self.blocks:
            while len(self.blocks) >= BLOCKS:
                del self.blocks[next(iter(self.blocks))]
            rounds = block * length + np.arange(length)
            self.blocks[block] = cohorts(self.selection, self.seeds, rounds, self.sizes, self.m)
        return self.blocks[block]
