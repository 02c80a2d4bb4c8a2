"""Spread: rounds whose clients work elsewhere, in a pool of workers; this process ends the rounds.

A cohort is cut into pieces whose number does not depend on the number of workers. The replies of a piece are added up
where they are made, and the pieces' sums here, in order. So neither the number of workers, nor which of them did a
piece or died over it, changes a bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.algorithms.method import Method, RoundState
from fedloom.engines.client_states import taken
from fedloom.engines.crew import Crew
from fedloom.engines.deferred import Columns, Deferred, known
from fedloom.engines.elapsed import limits
from fedloom.engines.lanes import Total, picked
from fedloom.engines.observed import Rounds
from fedloom.engines.own_models import outgoing
from fedloom.engines.pairs import Everyone
from fedloom.engines.plan import Plan
from fedloom.engines.program import Program
from fedloom.engines.round import Round, chosen
from fedloom.engines.store import View
from fedloom.local import Sent
from fedloom.tasks.task import Task
from fedloom.trees import flatten

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int, PyTree, UInt32

S = TypeVar("S")
JUDGED = 1000  # examples that clients with code of their own judge at once


@dataclass(frozen=True)
class Spread(Program):
    """A program whose clients work in a pool of workers; made by :meth:`Spreading.program`.

    Args:
        crew: the workers.
        pieces: the largest number of parts into which a cohort is cut.
    """

    crew: Crew | None = None
    pieces: int = 1

    @property
    def runs_ahead(self) -> bool:
        """False: a round is over when the workers have done it."""
        return False

    def advance(self, state: RoundState, first: int, rounds: int) -> tuple[RoundState, Rounds]:
        """Return the state some rounds later, and what those rounds did."""
        return in_rounds(self.one, state, first, rounds)

    def one(self, state: RoundState, number: int, last: bool) -> tuple[RoundState, Rounds]:
        """Return the state after one more round, and what the round did."""
        cohort = self.cohorts(number, 1)
        state = self.entered(state, cohort)
        dealt = cut(cohort[0], self.steps(cohort[0]), self.pieces)
        everyone, width = dealt.reshape(len(dealt), -1), dealt.shape[2]
        kept = None if state.clients is None else jax.tree.map(np.asarray, taken(state.clients, jnp.asarray(everyone)))
        choice = self.choice(state, everyone)
        own = None if choice is None else self.models(state, choice)
        part = lambda tree, p: jax.tree.map(lambda a: a[:, p * width : (p + 1) * width], tree)  # noqa: E731
        shared = flatten(state.sent) if own is None else {}
        most = limits(self, number, dealt[None])
        each = lambda p: (number, dealt[:, p], part(kept, p), part(own, p), None if most is None else most[0, :, p])  # noqa: E731
        found = self.do("work", shared, [each(p) for p in range(dealt.shape[1])])
        totals, keeps, read = (list(each) for each in zip(*found, strict=True))
        given = self.method, self.store.view(dealt), self.judged_on(dealt), self.read_by_all(), state, self.seeds
        ended = everyone, choice, np.bool_(last), kept, totals, keeps, read if read[0] else None
        state, did = _after(self.task, self.plan, self.m, *given, *ended)
        return state, replace(did, cohort=cohort[0])

    def do(self, method: str, shared: dict[str, np.ndarray], pieces: list[tuple[Any, ...]]) -> list[Any]:
        """Return the results of a method of the workers for each piece of work."""
        assert self.crew is not None
        return self.crew.do(method, shared, pieces)

    def choice(self, state: RoundState, clients: Int[np.ndarray, "X n"]) -> Int[np.ndarray, "X n"] | None:
        """Return the output that each of some clients trains; ``None`` if there is only one."""
        routing = self.method.routing
        if not routing.chooses:
            return np.maximum(clients, 0) if routing.exchanges_models else None
        if self.task.client is None:
            view = self.store.view(clients)
            return np.asarray(_chosen(self.task, self.plan, self.method, view, state.variables, clients))
        parts = np.array_split(clients, min(self.pieces, clients.shape[1]), axis=1)
        losses = np.concatenate(self.do("losses", flatten(state.sent), [(part,) for part in parts]), axis=1)
        choose = lambda method, losses: jax.vmap(method.routing.choose)(losses)  # noqa: E731
        return np.asarray(jax.vmap(choose)(self.method, jnp.asarray(losses)))

    def choosing(self, state: RoundState) -> RoundState:
        """Return the state in which every client has chosen its output anew, where clients choose."""
        if self.task.client is None or not self.method.routing.chooses:
            return super().choosing(state)
        everybody = np.arange(len(self.data), dtype=np.int32)
        choice = self.choice(state, np.broadcast_to(everybody, (len(self.seeds), len(everybody))))
        return self.with_choice(state, everybody, jnp.asarray(choice))

    def models(self, state: RoundState, choice: Int[np.ndarray, "X n"]) -> Sent:
        """Return what clients that train some outputs are sent."""
        sent = _rows(self.method, state, self.data.clients["train"].size, jnp.asarray(choice))
        rows: Sent = jax.tree.map(np.asarray, sent)
        return rows

    def close(self) -> None:
        """Release the workers."""
        if self.crew is not None:
            self.crew.close()

    def judged_on(self, clients: np.ndarray) -> dict[str, View]:
        """Return the examples on which this process measures clients; none for clients with code of their own."""
        return {} if self.task.client is not None else super().judged_on(clients)

    def means(self, state: RoundState, split: str, models: str) -> Deferred[Columns]:
        """Return metric → its value over all examples, for each experiment: of the shared model or of own models."""
        if self.task.client is None or self.method.is_personal:
            return super().means(state, split, models)
        rows = self.data.examples(split)
        pieces = [(split, rows[start : start + JUDGED]) for start in range(0, len(rows), JUDGED)]
        found = self.do("evaluate", flatten(state.sent), pieces)
        metrics = found[0][0]
        sums = {name: np.array([[one[name] for one in piece] for piece in found]).sum(0) for name in metrics}
        count = sums.pop("count")
        return known({name: value / count for name, value in sums.items()})

    def users(self, state: RoundState, split: str) -> dict[str, np.ndarray]:
        """Return metric (and ``count``) → its sum over each client's examples of a part: (experiments, clients)."""
        if self.task.client is None:
            return super().users(state, split)
        everybody, routing = np.arange(len(self.data)), self.method.routing
        alike = np.broadcast_to(everybody, (len(self.seeds), len(everybody)))
        rows = self.models(state, alike if routing.exchanges_models else np.asarray(routing.last_choice(state.memory)))
        parts = np.array_split(everybody, min(self.pieces, len(everybody)))
        pieces = [(split, part, jax.tree.map(lambda a, p=part: a[:, p], rows)) for part in parts]
        found = self.do("judge", {}, pieces)
        each = [[sums for piece in found for sums in piece[x]] for x in range(len(self.seeds))]
        return {name: np.array([[sums[name] for sums in mine] for mine in each]) for name in each[0][0]}


def in_rounds(one: Callable[[S, int, bool], tuple[S, Rounds]], state: S, first: int, rounds: int) -> tuple[S, Rounds]:
    """Return the state some rounds later, and what they did.

    Args:
        one: a round, given the state, its number, and True for the last round.
        state: the state before the rounds.
        first: the number of the first round.
        rounds: the number of rounds.
    """
    parts = []
    for number in range(first, first + rounds):
        state, did = one(state, number, number == first + rounds - 1)
        parts.append(did)
    return state, jax.tree.map(lambda *a: np.stack([np.asarray(b) for b in a]), *parts)


def cut(cohort: Int[np.ndarray, "X m"], steps: Int[np.ndarray, "X m"], most: int) -> Int[np.ndarray, "X p c"]:
    """Return a cohort in pieces of about the same work; -1 is no client.

    Clients are dealt to the pieces in turn, from the longest work to the shortest.

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
def _chosen(task: Task, plan: Plan, method: Method, view: View, models: Any, clients: Array) -> Array:
    return chosen(task, plan, method, view, models, clients)


@jax.jit
def _rows(method: Method, state: RoundState, sizes: Array | np.ndarray, outputs: Int[Array, "X n"]) -> Sent:
    sent: Sent = picked(outgoing(method, state, sizes), outputs)
    return sent


@partial(jax.jit, static_argnames=("task", "plan", "cohort"))
def _after(
    task: Task,
    plan: Plan,
    cohort: int,
    method: Method,
    view: View,
    judged: dict[str, View],
    everyone: dict[str, Everyone],
    state: RoundState,
    seeds: UInt32[Array, " X"],
    clients: Int[Array, "X n"],
    choice: Int[Array, "X n"] | None,
    last: Bool[Array, ""],
    kept: PyTree | None,
    totals: list[Total],
    keeps: list[PyTree],
    read: list[dict[str, Array]] | None,
) -> tuple[RoundState, Rounds]:
    """Return the state after a round whose pieces of work have been done, and what the round did."""
    side_by_side = lambda *a: jnp.concatenate(a, axis=1)  # noqa: E731
    added = lambda *a: sum(a[1:], start=a[0])  # noqa: E731
    update = jax.tree.map(side_by_side if plan.stacked else added, *[t.update for t in totals])
    aside = jax.tree.map(side_by_side if plan.apart else added, *[t.aside for t in totals])
    weight, computed, broken = jax.tree.map(added, *[(t.weight, t.computed, t.broken) for t in totals])
    total = Total(update, weight, aside, computed, broken)
    round = Round(task, plan, cohort, method, view, judged, everyone, seeds)
    found = None if read is None else jax.tree.map(side_by_side, *read)
    return round.after(state, clients, last, choice, kept, total, jax.tree.map(side_by_side, *keeps), found)
