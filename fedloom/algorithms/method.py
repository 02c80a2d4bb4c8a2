"""Method: one round of federated optimisation as a record of parts, and the state between rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.algorithms.server import Server, checked_server
from fedloom.algorithms.server import server as server_step
from fedloom.combine.combiner import Combiner, mean
from fedloom.combine.replies import Reading
from fedloom.errors import require
from fedloom.local import Local, Sent
from fedloom.local.batches import for_clients
from fedloom.routing.routing import Routing
from fedloom.selection import check_selection, describe_selection
from fedloom.tasks.task import Variables
from fedloom.trees import record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Int, PyTree


@record
class ClientStates:
    """What clients keep between rounds. Only clients that have taken part use memory.

    Args:
        place: the row of each client; 0 for clients that have not taken part yet.
        rows: what clients keep, with a leading axis of rows; row 0 is what every client begins with.
    """

    place: Int[Array, " clients"]
    rows: PyTree


@record
class RoundState:
    """The state between two rounds.

    Args:
        variables: the model; with several outputs, all outputs' models with a leading axis of outputs.
        optimizer: what the server's optimiser remembers, with the same axis.
        round: the number of the next round, from 0 on.
        broadcast: what clients are sent beside the model, by name, with the same axis.
        clients: what clients keep; ``None`` if they keep nothing.
        memory: what the routing remembers, by name.
    """

    variables: Variables
    optimizer: PyTree
    round: Int[Array, ""]
    broadcast: dict[str, PyTree]
    clients: ClientStates | None
    memory: dict[str, PyTree]

    @property
    def sent(self) -> Sent:
        """What clients are sent by a server."""
        return Sent(self.variables, self.broadcast)


@record
class Method:
    """One round of federated optimisation:

        a fraction C of the clients takes part
        the routing says which model w each of them trains
        each works locally, from w to w_k
        each model w that several clients trained moves by a server's step along their combined updates w_k - w;
        clients' own models are mixed by the routing

    The numbers in the parts (learning rates, epochs, …) are arguments of the compiled program; the rest decides what is
    compiled.

    Args:
        local: the work of a client.
        routing: which model each client trains, and which models its update reaches, with which weight.
        server: the optimiser that applies the combined update.
        combiner: what is made of the weighted updates: their mean, a median, …
        fraction: C, the share of clients in a round; 0 is one client.
        selection: the way in which they are selected, of :data:`fedloom.selection.SELECTIONS`.
    """

    local: Local
    routing: Routing
    server: Server = server_step()
    combiner: Combiner = mean
    fraction: float = static(default=0.1)
    selection: str = static(default="uniform")

    def cohort(self, clients: int) -> int:
        """Return the number of clients in a round, max(C·K, 1), rounded to the nearest.

        >>> from fedloom.algorithms import fedavg
        >>> [fedavg(fraction=c).cohort(100) for c in (0.0, 0.1, 1.0)]
        [1, 10, 100]
        """
        return max(round(self.fraction * clients), 1)

    @property
    def keeps_updates(self) -> bool:
        """True if all updates of a round are kept until the last one arrives, because their weights or the combined
        update depend on all of them.
        """
        return self.routing.compares_replies or not self.combiner.alone

    @property
    def is_personal(self) -> bool:
        """True if clients may use different models."""
        return self.local.is_personal or self.routing.has_several_outputs

    @property
    def has_shared_model(self) -> bool:
        """True if there is one complete model that can be used without any client's own layers."""
        return self.local.has_shared_model and not self.routing.has_several_outputs

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The measures of clients' models that the routing depends on."""
        return self.routing.readings

    def for_clients(self, clients: int, names: Sequence[str] = (), models: int | None = None) -> Self:
        """Return the method for a number of clients.

        Args:
            clients: the number.
            names: of the clients, if they have names.
            models: the number of models that clients mix, if it is not one for each client.
        """
        local = for_clients(self.local, clients, names)
        return replace(self, local=local, routing=self.routing.for_clients(clients if models is None else models))

    def checked(self) -> Self:
        """Return the method if its parts fit together.

        Raises:
            ArgumentError: a part is of the wrong kind, a number cannot be used, or two parts exclude each other.
        """
        for name, part, kind, example in (
            ("local", self.local, Local, "local.sgd()"),
            ("routing", self.routing, Routing, "routing.one_server()"),
            ("server", self.server, Server, 'server("adam")'),
            ("combiner", self.combiner, Combiner, "combine.median()"),
        ):
            require(isinstance(part, kind), name, f"a {kind.__name__}, such as fl.{example}", part)
        is_called = type(self).model is Method.model or self.is_personal
        require(
            is_called, "model", "overridden in personal work or a routing, since nothing calls it", type(self).__name__
        )
        self.local.checked()
        self.routing.checked()
        checked_server(self.server)
        self.combiner.checked()
        need = "one that takes a mean, with a weighting that divides by more than its weights (q-FedAvg)"
        takes_mean = self.routing.divides_by_weights or self.combiner.alone
        require(takes_mean, "combiner", need, self.combiner.describe())
        mixes = "the mean where clients mix models of their own, since there are no updates to combine"
        plain = self.combiner.alone and self.combiner.trusting
        require(plain or not self.routing.exchanges_models, "combiner", mixes, self.combiner.describe())
        steps = "average with rate 1 where clients mix models of their own, since no server takes a step"
        average = self.server.name == "average" and bool(np.all(np.asarray(self.server.lr) == 1))
        require(average or not self.routing.exchanges_models, "server", steps, self.server.name)
        require(0 <= self.fraction <= 1, "fraction", "between 0 and 1", self.fraction)
        check_selection(self.selection, self.fraction)
        return self

    def describe(self) -> dict[str, Any]:
        """Return what the method is made of, by name, for tables and to recognise a resumed run."""
        who = {"fraction": self.fraction, **describe_selection(self.selection)}
        parts = {**who, **self.local.describe(), **self.routing.describe()}
        if self.routing.exchanges_models:
            return parts
        server = self.server
        steps = {"server": server.name, "server_lr": float(server.lr), "server_momentum": float(server.momentum)}
        return {**parts, **self.combiner.describe(), **steps}

    def init(self, models: Variables, clients: int) -> RoundState:
        """Return the state before the first round.

        Args:
            models: the first model; with several outputs, the first model of every output with a leading axis.
            clients: K, the number of clients.
        """
        several = self.routing.has_several_outputs
        one = jax.tree.map(lambda a: a[0], models) if several else models
        each = jax.vmap if several else lambda function: function
        mixes = self.routing.exchanges_models
        optimizer = () if mixes else each(self.server.transformation().init)(models.params)
        broadcast = {} if mixes else each(self.local.broadcast)(models)
        first = jax.tree.map(lambda a: a[None], self.local.client_state(one))
        states = ClientStates(jnp.zeros(clients, jnp.int32), first) if first else None
        return RoundState(models, optimizer, jnp.int32(0), broadcast, states, self.routing.memory(one, clients))

    def model(self, state: RoundState, client: Int[Array, ""]) -> Variables:
        """Return the model that a client uses."""
        received = self.routing.model(state.variables, state.memory, client)
        if state.clients is None:
            return received
        row = state.clients.place[client]
        return self.local.model(received, jax.tree.map(lambda a: a[row], state.clients.rows))
