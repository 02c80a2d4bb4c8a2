"""Own models: the end of a round in which every client has a model of its own, and all models are mixed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedloom.algorithms.method import Method, RoundState
from fedloom.combine.replies import Replies
from fedloom.engines.axes import over
from fedloom.engines.client_states import returned
from fedloom.engines.collective import added, sometimes, together
from fedloom.engines.lanes import Total
from fedloom.engines.observed import Rounds, observed
from fedloom.engines.pairs import among, pairs
from fedloom.engines.predictions import PREDICTIONS, predicted
from fedloom.engines.schedule import PEERS, stream
from fedloom.engines.setting import Setting
from fedloom.engines.store import View
from fedloom.engines.users import each
from fedloom.local import Sent
from fedloom.tasks.task import Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, PyTree

SHOWN = 64  # clients up to which the mixing matrix is shown, and kept for every round that is evaluated


def outgoing(method: Method, state: RoundState, sizes: Array | np.ndarray) -> Sent:
    """Return what clients are sent: the outputs, and what else the method sends with them."""
    if not method.routing.exchanges_models:
        return state.sent
    tell = lambda a, s: a.routing.broadcast(s.variables, s.memory, jnp.asarray(sizes))  # noqa: E731
    return Sent(state.variables, jax.vmap(tell)(method, state))


@dataclass(frozen=True, eq=False)
class Exchange(Setting):
    """The exchange of all clients' models at the end of a round."""

    def __call__(
        self, state: RoundState, clients: Int[Array, "X m"], last: Bool[Array, ""], mine: Total, keeps: PyTree
    ) -> tuple[RoundState, Rounds]:
        """Return the state after clients' work, given their replies and what they keep, and what the round did."""
        users = len(self.view.size)
        update, present, computed = added(self.plan, placed(state, clients, mine))
        present = present > 0
        trained = jax.tree.map(jnp.add, state.variables, update)
        after = self.remembered(replace(state, variables=trained), clients, keeps)
        sizes = jnp.broadcast_to(self.view.size.astype(jnp.float32), present.shape)
        replies = Replies(sizes, present, {}, round=state.round)
        pick = lambda a, seed, told, x: a.routing.peers(stream(seed, PEERS, told.round), told, self.cohort, x)  # noqa: E731
        peers = jax.vmap(pick)(self.method, self.seeds, replies, trained)
        replies = replace(replies, readings=self.read(state.variables, trained, peers))
        mix = over(self.plan.members, lambda a, *given: a.routing.exchange(*given), [True] * 6)
        models, memory = mix(self.method, state.variables, trained, state.memory, replies, peers)
        ahead = replace(after, variables=models, memory=memory, round=state.round + 1)
        norm = jax.vmap(optax.tree.norm)(update.params) / users**0.5
        see = lambda: self.seen(state, after, ahead, replies, peers)  # noqa: E731
        return ahead, Rounds(norm, computed, sometimes(last, see) if self.plan.observed else {})

    def remembered(self, state: RoundState, clients: Int[Array, "X m"], keeps: PyTree) -> RoundState:
        """Return the state with what clients keep after their work."""
        if state.clients is None:
            return state
        everyone, keeps = together(self.plan, (clients, keeps))
        return replace(state, clients=returned(state.clients, everyone, keeps))

    def read(self, before: Variables, after: Variables, peers: Array | None) -> dict[str, Array]:
        """Return every reading: A[i, j] is what client i reads of client j's model, or of its j-th peer's.

        Readings of one part of the data at one moment are taken once.
        """
        found, needs = {}, self.method.readings
        for part, moment in dict.fromkeys((need.part, need.moment) for need in needs):
            models = after if moment == "after" else before
            if peers is None:
                found[part, moment] = pairs(self.task, self.plan, self.everyone[part], models, len(self.view.size))
            else:
                found[part, moment] = among(self.task, self.plan, self.judged[part], models, peers)
        return {need.name: found[need.part, need.moment][need.metric] for need in needs}

    def seen(
        self, before: RoundState, after: RoundState, ahead: RoundState, replies: Replies, peers: Array | None
    ) -> dict[str, Any]:
        """Return the clients that took part, their test metrics before and after their work, and the mixing matrix."""
        users = len(self.view.size)

        def measure(view: View, moment: str) -> dict[str, Any]:
            given = self.task, self.plan, self.method, view, before if moment == "before" else after
            sums = each(*given)
            means: dict[str, Any] = {name: value / sums["count"] for name, value in sums.items() if name != "count"}
            return {**means, PREDICTIONS: each(*given, judge=predicted)} if self.task.overall else means

        found = observed(self.judged, jnp.where(replies.present, jnp.arange(users), -1), measure)
        if users <= SHOWN:
            found["mixing"] = jax.vmap(lambda a, told, p: a.routing.matrix(told, p))(self.method, replies, peers)
            found |= jax.vmap(lambda a, s: a.routing.notes(s.memory))(self.method, ahead)
        return found


def placed(state: RoundState, clients: Int[Array, "X m"], mine: Total) -> tuple[Variables, Array, Array]:
    """Return the updates of some clients in the places of all clients, their presence, and the steps computed."""
    users = jax.tree.leaves(state.variables)[0].shape[1]
    at = jnp.where(clients >= 0, clients, users)
    put = jax.vmap(lambda a, new, at: jnp.zeros_like(a).at[at].set(new, mode="drop"))
    update = jax.tree.map(lambda a, u: put(a, u, at), state.variables, mine.update)
    present = jax.vmap(lambda at: jnp.zeros(users).at[at].set(1, mode="drop"))(at)
    return update, present, mine.computed


@jax.jit
def mean_model(variables: Variables) -> Variables:
    """Return the mean of all clients' models, for each experiment."""
    mean: Variables = jax.tree.map(lambda a: a.mean(1), variables)
    return mean


@jax.jit
def consensus(variables: Variables) -> Float[Array, " X"]:
    """Return √(mean over k of ‖x_k - mean x‖²), for each experiment."""
    squares = [jnp.sum((a - a.mean(1, keepdims=True)) ** 2, axis=tuple(range(2, a.ndim))).mean(1)
               for a in jax.tree.leaves(variables.params)]  # fmt: skip
    return jnp.sqrt(jnp.sum(jnp.stack(squares), axis=0))
