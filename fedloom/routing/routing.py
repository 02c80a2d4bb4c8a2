"""Routing: the protocol of every way in which clients' updates reach models.

An *output* is a model that a round renews: the one model of a server, one model for each cluster, or one for each
client. A routing says how many outputs there are, which of them each client trains, and what each output receives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from fedloom.combine.replies import Reading, Replies
from fedloom.parts import check_defines, numbers_of
from fedloom.tasks.task import Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, Key, PyTree


class Routing:
    """Which output each client trains, and which outputs its update reaches.

    Attributes:
        has_several_outputs: True if clients may start a round from different models.
        chooses: True if each client of a round chooses the output that it trains (:meth:`choose`).
        exchanges_models: True if each client has an output of its own and all models are mixed (:meth:`exchange`).
            Otherwise the weighted updates of an output's clients are added up, with the weights of :meth:`weigh`.
        pushes: True if each client splits its own model among others, so that columns of the matrix sum to one.
    """

    has_several_outputs = False
    chooses = False
    exchanges_models = False
    pushes = False

    @property
    def has_server(self) -> bool:
        """True if models pass through a server."""
        return True

    @property
    def seeks_consensus(self) -> bool:
        """True if clients' models are to become equal."""
        return False

    @property
    def needs_all_models(self) -> bool:
        """True if a client must be sent all models to know whose it averages."""
        return False

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The measures of clients' models that the weights depend on."""
        return ()

    @property
    def compares_replies(self) -> bool:
        """True if the weight of a reply depends on other replies, so that all must be kept until the last arrives."""
        return False

    @property
    def divides_by_weights(self) -> bool:
        """True if an output receives a mean: the sum of the weighted updates over the sum of the weights."""
        return True

    @property
    def min_cohort(self) -> int:
        """The smallest number of clients that a round needs."""
        return 1

    def for_clients(self, clients: int) -> Routing:  # noqa: ARG002
        """Return the routing for a number of clients."""
        return self

    def outputs(self, clients: int) -> int:  # noqa: ARG002
        """Return the number of outputs."""
        return 1

    def memory(self, variables: Variables, clients: int) -> dict[str, PyTree]:  # noqa: ARG002
        """Return what the routing remembers between rounds, by name, before the first round."""
        return {}

    def model(self, models: Variables, memory: dict[str, PyTree], client: Int[Array, ""]) -> Variables:  # noqa: ARG002
        """Return the output that a client uses."""
        return models

    def choose(self, losses: Float[Array, " outputs"]) -> Int[Array, ""]:
        """Return the output that a client trains, given the loss of every output on the client's training data."""
        raise NotImplementedError

    def remember_choice(
        self,
        memory: dict[str, PyTree],
        clients: Int[Array, " m"],  # noqa: ARG002
        choice: Int[Array, " m"],  # noqa: ARG002
    ) -> dict[str, PyTree]:
        """Return the memory with the outputs that some clients chose; -1 is no client."""
        return memory

    def last_choice(self, memory: dict[str, PyTree]) -> Int[Array, "*lead K"]:
        """Return the output that each client chose last."""
        raise NotImplementedError

    def weigh(self, replies: Replies) -> Float[Array, " m"]:
        """Return the weight of each reply to one output."""
        raise NotImplementedError

    def total(self, replies: Replies, weights: Float[Array, " m"]) -> Float[Array, ""]:
        """Return the number by which the sum of the weighted updates is divided."""
        raise NotImplementedError

    def broadcast(self, models: Variables, memory: dict[str, PyTree], sizes: Int[Array, " K"]) -> dict[str, PyTree]:  # noqa: ARG002
        """Return what each client is sent beside its own model, by name, with a leading axis of clients."""
        return {}

    def peers(self, key: Key[Array, ""], replies: Replies, cohort: int, models: Variables) -> Int[Array, "K p"] | None:
        """Return the clients whose models each client averages, itself first; ``None`` for all clients."""
        raise NotImplementedError

    def exchange(
        self,
        models: Variables,
        trained: Variables,
        memory: dict[str, PyTree],
        replies: Replies,
        peers: Int[Array, "K p"] | None,
    ) -> tuple[Variables, dict[str, PyTree]]:
        """Return all clients' models after an exchange, and what the routing remembers.

        Args:
            models: all clients' models before their work, with a leading axis of clients.
            trained: the models after their work.
            memory: what the routing remembers.
            replies: the clients that took part, and what they read of each other's models.
            peers: the clients whose models each client averages.
        """
        raise NotImplementedError

    def matrix(self, replies: Replies, peers: Int[Array, "K p"] | None) -> Float[Array, "K K"]:
        """Return the mixing matrix of an exchange, for figures."""
        raise NotImplementedError

    def notes(self, memory: dict[str, PyTree]) -> dict[str, Array]:  # noqa: ARG002
        """Return matrices over clients that are worth a figure, by name."""
        return {}

    def models_down(self, clients: int) -> int:
        """Return the number of models that a server sends a client for each model that it sends back."""
        return self.outputs(clients) if self.has_server else 0

    def models_sent(self, cohort: int, round: int, key: Callable[[], Key[Array, ""]]) -> int:  # noqa: ARG002
        """Return the number of models that clients send in a round, whose random key a function returns."""
        return cohort

    def mean_models_sent(self, cohort: int) -> int:
        """Return the number of models that clients send in a round on average."""
        return cohort

    def check(self, variables: Variables) -> None:
        """Raise an :class:`ArgumentError` if the routing cannot be used with such a model."""

    def checked(self) -> Self:
        """Return the routing if it can be used.

        Raises:
            ArgumentError: a number cannot be used, or the class lacks a function.
        """
        needed = ("peers", "exchange", "matrix") if self.exchanges_models else ("weigh", "total")
        check_defines(self, "routing", Routing, *needed, *(("choose", "last_choice") if self.chooses else ()))
        if self.has_several_outputs:
            check_defines(self, "routing", Routing, "outputs", "model")
        return self

    def describe(self) -> dict[str, Any]:
        """Return the routing's name and numbers."""
        return {"routing": type(self).__name__, **numbers_of(self)}
