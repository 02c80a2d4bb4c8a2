"""Spread peers: rounds in which every user has a model of its own and works elsewhere, in a crew of workers.

A piece of work takes with it the models of its users, and brings their updates; this process mixes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.algorithms.personalised import PeerState, Personalised
from fedloom.engines.crew import Crew
from fedloom.engines.lanes import Total, picked
from fedloom.engines.pairs import Everyone
from fedloom.engines.peers import Peers, Round, outgoing, placed
from fedloom.engines.plan import Plan
from fedloom.engines.program import Rounds
from fedloom.engines.spread import cut, in_rounds
from fedloom.engines.store import View
from fedloom.local import Sent
from fedloom.mixing import Neighbours
from fedloom.tasks.task import Task

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int, UInt32


@dataclass(frozen=True)
class SpreadPeers(Peers):
    """A program whose users work in a crew, each from its own model; see :class:`fedloom.engines.spread.Spread`."""

    crew: Crew | None = None
    pieces: int = 1

    @property
    def runs_ahead(self) -> bool:
        """False: a round is over when the workers have done it."""
        return False

    def advance(self, state: PeerState, first: int, rounds: int) -> tuple[PeerState, Rounds]:  # type: ignore[override]
        """The state some rounds later, and what those rounds did."""
        return in_rounds(self.one, state, first, rounds)

    def one(self, state: PeerState, number: int, last: bool) -> tuple[PeerState, Rounds]:
        """The state after one more round."""
        assert self.crew is not None
        chosen = self.cohorts(number, 1)[0]
        dealt = cut(chosen, self.steps(chosen), self.pieces)
        everyone = dealt.reshape(len(dealt), -1)
        rows = self.models(state, everyone)
        width = dealt.shape[2]
        own = lambda p: jax.tree.map(lambda a: a[:, p * width : (p + 1) * width], rows)  # noqa: E731
        found = self.crew.do("apart", {}, [(number, dealt[:, p], own(p)) for p in range(dealt.shape[1])])
        view, few = self.store.view(everyone), isinstance(self.algorithm.mixer, Neighbours)
        parts = sorted({need.part for need in self.algorithm.readings})
        examples = {part: self.store.view(everyone, part) if few else self.everyone(part) for part in parts}
        test = self.seen_on(everyone)
        given = self.algorithm, view, test, examples, state, self.seeds, everyone, np.bool_(last), found
        state, did = _mixed(self.task, self.plan, self.m, *given)
        return state, replace(did, cohort=chosen)

    def models(self, state: PeerState, users: Int[np.ndarray, "X n"]) -> Sent:
        """What some users are sent."""
        sent = _rows(self.algorithm, state, self.data.clients["train"].size, jnp.asarray(np.maximum(users, 0)))
        rows: Sent = jax.tree.map(np.asarray, sent)
        return rows

    def users(self, state: PeerState, split: str) -> dict[str, np.ndarray]:  # type: ignore[override]
        """Metric (and ``count``) → its sum over each user's examples of a part: (experiments, users)."""
        if self.task.client is None:
            return super().users(state, split)  # type: ignore[arg-type]
        assert self.crew is not None
        everybody = np.arange(len(self.data))
        rows = self.models(state, np.broadcast_to(everybody, (len(self.seeds), len(everybody))))
        parts = np.array_split(everybody, min(self.pieces, len(everybody)))
        pieces = [(split, part, jax.tree.map(lambda a, p=part: a[:, p], rows)) for part in parts]
        found = self.crew.do("judge", {}, pieces)
        each = [[sums for piece in found for sums in piece[x]] for x in range(len(self.seeds))]
        return {name: np.array([[sums[name] for sums in mine] for mine in each]) for name in each[0][0]}

    def close(self) -> None:
        """Let the workers go."""
        if self.crew is not None:
            self.crew.close()


@jax.jit
def _rows(algorithm: Personalised, state: PeerState, sizes: Array | np.ndarray, users: Int[Array, "X n"]) -> Sent:
    sent: Sent = picked(outgoing(algorithm, state, sizes), users)
    return sent


@partial(jax.jit, static_argnames=("task", "plan", "m"))
def _mixed(
    task: Task,
    plan: Plan,
    m: int,
    algorithm: Personalised,
    view: View,
    test: dict[str, View],
    examples: dict[str, Everyone | View],
    state: PeerState,
    seeds: UInt32[Array, " X"],
    users: Int[Array, "X n"],
    last: Bool[Array, ""],
    found: list[Total],
) -> tuple[PeerState, Rounds]:
    """What becomes of users' models when the pieces of a round have been done."""
    update = jax.tree.map(lambda *a: jnp.concatenate(a, axis=1), *[t.update for t in found])
    computed = sum((t.computed for t in found[1:]), start=found[0].computed)
    whole = Total(update, found[0].weight, {}, computed, found[0].broken)
    round = Round(task, plan, m, algorithm, view, test, examples, seeds)
    update, present, computed = placed(state, users, whole)
    return round.after(state, last, update, present > 0, computed)
