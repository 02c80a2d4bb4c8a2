"""Algorithm: one round of federated optimisation, as parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import optax

from fedloom.algorithms.server import Server, checked_server
from fedloom.combine.combiner import Combiner, mean
from fedloom.combine.replies import Reading
from fedloom.combine.weighting import Weighting
from fedloom.errors import require
from fedloom.local import Local, Sent
from fedloom.tasks.task import Variables
from fedloom.trees import record, static, where

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int, PyTree


def cohort(fraction: float, clients: int) -> int:
    """M = max(C·K, 1), to the nearest client."""
    return max(round(fraction * clients), 1)


@record
class Kept:
    """What clients keep for themselves between rounds; only those that have been visited take memory.

    Arguments:
        place: the row of each client; 0 for those that have not been visited.
        rows: what clients keep, one beside the other; the first row is what everybody begins with.
    """

    place: Int[Array, " clients"]
    rows: PyTree


@record
class ServerState:
    """What there is between rounds: the shared model, the memory of the server's optimiser, the round's number, what
    clients are told beside the model, and what they keep.
    """

    variables: Variables
    optimizer: PyTree
    round: Int[Array, ""]
    aside: dict[str, PyTree]
    kept: Kept | None

    @property
    def sent(self) -> Sent:
        """What clients are sent."""
        return Sent(self.variables, self.aside)


@record
class Algorithm:
    """One round of federated optimisation, Algorithm 1 of McMahan et al. (2017):

        m ← max(C·K, 1) clients at random
        each works locally from w:        w_k
        w ← server(w, Σ_k p_k (w_k - w)), p_k the weighting's share of client k; or what else the combiner makes of all
                                          w_k - w

    The numbers in it (learning rates, epochs, …) are arguments of the compiled program; the rest decides what is
    compiled.
    """

    local: Local
    server: Server
    weighting: Weighting
    fraction: float = static()
    combiner: Combiner = mean

    def cohort(self, clients: int) -> int:
        """M = max(C·K, 1), to the nearest client.

        >>> from fedloom.algorithms import fedavg
        >>> [fedavg(fraction=c).cohort(100) for c in (0.0, 0.1, 1.0)]
        [1, 10, 100]
        """
        return cohort(self.fraction, clients)

    has_server = True

    @property
    def least(self) -> int:
        """How small a cohort may be."""
        return 1

    @property
    def stacked(self) -> bool:
        """Whether replies must be kept until all have come, because what they count or come to depends on all."""
        return not (self.weighting.alone and self.combiner.alone)

    @property
    def personal(self) -> bool:
        """Whether the model that a client uses is its own."""
        return self.local.is_personal

    @property
    def has_shared_model(self) -> bool:
        """True if there is one complete model that can be used without any client's own layers."""
        return self.local.has_shared_model

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What is measured of clients' models to weigh their replies."""
        return self.weighting.readings

    @property
    def apart(self) -> bool:
        """Whether every client has a model of its own."""
        return False

    def sized(self, clients: int) -> Algorithm:  # noqa: ARG002
        """The same for so many clients."""
        return self

    def checked(self) -> Algorithm:
        """The same, if its numbers can be used."""
        for name, part, kind, example in (
            ("local", self.local, Local, "local.sgd()"),
            ("server", self.server, Server, 'server("adam")'),
            ("weighting", self.weighting, Weighting, "combine.uniform"),
            ("combiner", self.combiner, Combiner, "combine.median()"),
        ):
            require(isinstance(part, kind), name, f"a {kind.__name__}, such as fl.{example}", part)
        self.local.checked()
        checked_server(self.server)
        self.weighting.checked()
        self.combiner.checked()
        need = "one that takes a mean, with a weighting that divides by more than its weights (q-FedAvg)"
        require(self.weighting.is_mean or self.combiner.alone, "combiner", need, self.combiner.describe())
        require(0 <= self.fraction <= 1, "fraction", "between 0 and 1", self.fraction)
        return self

    def describe(self) -> dict[str, Any]:
        """What it is made of, by name: for tables, and for checking that a resumed run is the same one."""
        server = self.server
        return {
            "fraction": self.fraction,
            **self.local.describe(),
            **self.weighting.describe(),
            **self.combiner.describe(),
            "server": server.name,
            "server_lr": float(server.lr),
            "server_momentum": float(server.momentum),
        }

    def init(self, variables: Variables, clients: int) -> ServerState:
        """The state before the first round."""
        memory = self.server.transformation().init(variables.params)
        first = jax.tree.map(lambda a: a[None], self.local.client_state(variables))
        kept = Kept(jnp.zeros(clients, jnp.int32), first) if first else None
        return ServerState(variables, memory, jnp.int32(0), self.local.broadcast(variables), kept)

    def model(self, state: ServerState, client: Int[Array, ""]) -> Variables:
        """The model that a client uses."""
        if state.kept is None:
            return state.variables
        row = state.kept.place[client]
        return self.local.model(state.variables, jax.tree.map(lambda a: a[row], state.kept.rows))

    def apply(
        self,
        state: ServerState,
        mean: Variables,
        aside: dict[str, PyTree],
        clients: int | Array,
        counted: Bool[Array, ""] | bool,
    ) -> ServerState:
        """Return the state after a round. Every engine, MPI and the network take the server's step here.

        If no update counted, only the round number changes: not the model, the optimiser's memory or what clients are
        told beside the model.

        Args:
            state: the state before the round.
            mean: the mean update. The server's optimiser sees its negative as the gradient. Non-trainable state is
                added as it is.
            aside: the sum of all changes to what clients are told beside the model; divided by the number of clients.
            clients: K, the number of clients.
            counted: True if at least one update had a positive weight.
        """
        counted, params = jnp.asarray(counted), state.variables.params
        gradient = jax.tree.map(jnp.negative, mean.params)
        change, memory = self.server.transformation().update(gradient, state.optimizer, params)
        if jax.tree.leaves(memory):  # select before the addition, or the compiler may fuse it with the product
            change = jax.tree.map(lambda a: jnp.where(counted, a, 0), change)
        fresh = jax.tree.map(jnp.add, state.variables.state, mean.state)
        told = jax.tree.map(lambda a, changes: a + changes / clients, state.aside, aside)
        ahead = Variables(optax.apply_updates(params, change), fresh), memory, told
        variables, memory, told = where(counted, ahead, (state.variables, state.optimizer, state.aside))
        return ServerState(variables, memory, state.round + 1, told, state.kept)
