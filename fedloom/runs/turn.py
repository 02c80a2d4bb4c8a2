"""Turn: some rounds and the evaluation after them, dispatched to the device and read by one transfer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from fedloom.algorithms import RoundState
from fedloom.engines import Program
from fedloom.engines.deferred import Columns, Deferred, merge
from fedloom.engines.observed import Rounds
from fedloom.trees import nbytes

WASTE = 1.0  # seconds of a turn that may be computed in vain
LARGE = 2**26  # bytes of a state of which there is no room for one more


@dataclass(frozen=True)
class Turn:
    """Some rounds and the evaluation after them. The device may still be computing them.

    Args:
        before: the state before the rounds; ``None`` if there are none, at the start of a run.
        state: the state after them.
        round: the number of rounds done after them.
        did: what the rounds did; ``None`` if there are none.
        measured: the columns of the history that are about models.
    """

    before: RoundState | None
    state: RoundState
    round: int
    did: Rounds | None
    measured: Deferred[Columns]

    def fetch(self) -> tuple[Rounds | None, Columns]:
        """Wait for the device and return what the rounds did and measured, on the host."""
        found: tuple[Rounds | None, Any] = jax.device_get((self.did, self.measured.arrays))
        return found[0], self.measured.finish(found[1])


def first_turn(program: Program, state: RoundState, splits: Sequence[str]) -> Turn:
    """Dispatch the evaluation of a state before its first round."""
    return Turn(None, state, 0, None, measurements(program, state, splits))


def next_turn(program: Program, state: RoundState, now: int, rounds: int, splits: Sequence[str]) -> Turn:
    """Dispatch the rounds after round ``now`` and the evaluation of the parts of the data in ``splits``."""
    ahead, did = program.advance(state, now, rounds)
    return Turn(state, ahead, now + rounds, did, measurements(program, ahead, splits))


def measurements(program: Program, state: RoundState, splits: Sequence[str]) -> Deferred[Columns]:
    """Dispatch all measurements of a state."""
    return merge([*(program.evaluation(state, split) for split in splits), program.measures(state, splits)])


def may_run_ahead(program: Program, state: RoundState, took: Sequence[float]) -> bool:
    """Return whether the next turn may be dispatched before the results of this one are read.

    A rule for stopping, a race or a number that is not finite may turn out to have ended the run, so that the turn was
    computed in vain. So turns must be short, as far as former ones tell (the first one compiles). There are three
    states at a time instead of two, so that a state must be small.

    Args:
        program: the program.
        state: a state of it.
        took: the seconds of each turn so far.
    """
    return program.runs_ahead and len(took) > 1 and took[-1] < WASTE and nbytes(state) < LARGE


def round_of(state: RoundState) -> int:
    """Return the number of rounds that the experiments of a state have done."""
    return int(np.max(np.asarray(state.round)))
