"""Spread: rounds whose clients work elsewhere, in a crew of workers; this process adds up and takes the server's step.

A cohort is cut into pieces whose number does not depend on how many workers there are. A piece's replies are added up
where they are made, and the pieces' sums here, in their order: so neither the number of workers nor which of them did
what, or died over it, changes a bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

import fedloom.engines.devices as machine
from fedloom.algorithms import Algorithm, ServerState
from fedloom.engines.crew import Crew
from fedloom.engines.deferred import Columns, Deferred, known
from fedloom.engines.keeping import enter, taken
from fedloom.engines.lanes import Total
from fedloom.engines.plan import Plan
from fedloom.engines.program import Program, Round, Rounds
from fedloom.engines.store import View
from fedloom.tasks.task import Task
from fedloom.trees import flatten

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int, PyTree, UInt32

S = TypeVar("S")
JUDGED = 1000  # examples that clients with code of their own judge at once


@dataclass(frozen=True)
class Spread(Program):
    """A program whose clients work in a crew; made by :meth:`Spreading.program`.

    Arguments:
        crew: the workers.
        pieces: into how many parts a cohort is cut at most.
    """

    crew: Crew | None = None
    pieces: int = 1

    @property
    def runs_ahead(self) -> bool:
        """False: a round is over when the workers have done it."""
        return False

    def advance(self, state: ServerState, first: int, rounds: int) -> tuple[ServerState, Rounds]:
        """The state some rounds later, and what those rounds did."""
        return in_rounds(self.one, state, first, rounds)

    def one(self, state: ServerState, number: int, last: bool) -> tuple[ServerState, Rounds]:
        """The state after one more round."""
        assert self.crew is not None
        chosen = self.cohorts(number, 1)
        if state.kept is not None:
            state = replace(state, kept=machine.place(enter(state.kept, chosen), self.plan.mesh))
        dealt = cut(chosen[0], self.steps(chosen[0]), self.pieces)
        everyone, width = jnp.asarray(dealt.reshape(len(dealt), -1)), dealt.shape[2]
        kept = None if state.kept is None else jax.tree.map(np.asarray, taken(state.kept, everyone))
        own = lambda p: jax.tree.map(lambda a: a[:, p * width : (p + 1) * width], kept)  # noqa: E731
        pieces = [(number, dealt[:, p], own(p)) for p in range(dealt.shape[1])]
        found = self.crew.do("work", flatten(state.sent), pieces)
        totals, keeps, read = (list(part) for part in zip(*found, strict=True))
        given = self.algorithm, self.store.view(dealt), self.judged_on(dealt), state, self.seeds, dealt
        rest = np.bool_(last), kept, totals, keeps, read if read[0] else None
        state, did = _after(self.task, self.plan, *given, *rest)
        return state, replace(did, cohort=chosen[0])

    def close(self) -> None:
        """Let the workers go."""
        if self.crew is not None:
            self.crew.close()

    def judged_on(self, dealt: np.ndarray) -> dict[str, View]:
        """Return the examples on which this process measures clients; none for clients with code of their own."""
        if self.task.client is not None:
            return {}
        return super().judged_on(dealt)

    def means(self, state: ServerState, split: str, models: str) -> Deferred[Columns]:
        """Return metric → mean over examples, for each experiment; clients with code of their own measure it."""
        if self.task.client is None:
            return super().means(state, split, models)
        assert self.crew is not None
        rows = self.data.examples(split)
        pieces = [(split, rows[start : start + JUDGED]) for start in range(0, len(rows), JUDGED)]
        found = self.crew.do("evaluate", flatten(state.sent), pieces)
        metrics = found[0][0]
        sums = {name: np.array([[one[name] for one in piece] for piece in found]).sum(0) for name in metrics}
        count = sums.pop("count")
        return known({name: value / count for name, value in sums.items()})


def in_rounds(one: Callable[[S, int, bool], tuple[S, Rounds]], state: S, first: int, rounds: int) -> tuple[S, Rounds]:
    """The state some rounds later, and what they did, each told its number and whether it is the last."""
    parts = []
    for number in range(first, first + rounds):
        state, did = one(state, number, number == first + rounds - 1)
        parts.append(did)
    return state, jax.tree.map(lambda *a: np.stack([np.asarray(b) for b in a]), *parts)


def cut(cohort: Int[np.ndarray, "X m"], steps: Int[np.ndarray, "X m"], most: int) -> Int[np.ndarray, "X p c"]:
    """A cohort in pieces of about the same work: from the longest to the shortest, dealt in turn; -1 is nobody.

    >>> cut(np.array([[7, 8, 9]]), np.array([[1, 5, 3]]), most=2).tolist()
    [[[8, 7], [9, -1]]]
    """
    x, m = cohort.shape
    pieces = min(m, most)
    width = -(-m // pieces)
    order = np.argsort(-steps, axis=1, kind="stable")
    filled = np.full((x, pieces * width), -1, np.int32)
    filled[:, :m] = np.take_along_axis(cohort, order, axis=1)
    return filled.reshape(x, width, pieces).swapaxes(1, 2)


@partial(jax.jit, static_argnames=("task", "plan"))
def _after(
    task: Task,
    plan: Plan,
    algorithm: Algorithm,
    view: View,
    judged: dict[str, View],
    state: ServerState,
    seeds: UInt32[Array, " X"],
    dealt: Int[Array, "X p c"],
    last: Bool[Array, ""],
    kept: PyTree | None,
    totals: list[Total],
    keeps: list[PyTree],
    read: list[dict[str, Array]] | None,
) -> tuple[ServerState, Rounds]:
    """What the server does with what the pieces of a round gave."""
    side_by_side = lambda *a: jnp.concatenate(a, axis=1)  # noqa: E731
    added = lambda *a: sum(a[1:], start=a[0])  # noqa: E731
    update = jax.tree.map(side_by_side if plan.stacked else added, *[t.update for t in totals])
    rest = jax.tree.map(added, *[(t.weight, t.aside, t.computed, t.broken) for t in totals])
    total = Total(update, *rest)
    clients = dealt.reshape(len(dealt), -1)
    round = Round(task, plan, algorithm, view, judged, seeds)
    found = None if read is None else jax.tree.map(side_by_side, *read)
    return round.after(state, clients, last, kept, total, jax.tree.map(side_by_side, *keeps), found)
