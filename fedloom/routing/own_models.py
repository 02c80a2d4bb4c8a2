"""Own models: every client has a model, trains it, and mixes it with other clients' models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import jax

from fedloom.combine.replies import Reading, Replies
from fedloom.errors import require
from fedloom.mixing import Mixer, identity
from fedloom.parts import numbers_of
from fedloom.routing.routing import Routing
from fedloom.tasks.task import Variables
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, Key, PyTree


@record
class OwnModels(Routing):
    """One round over the stack X of all clients' models:

        each client trains its own    X_k ← local(X_k)
        all models are mixed          X ← M·X

    The mixer gives M, and a client that is absent keeps its model. Build it with :func:`own_models`.
    """

    mixer: Mixer

    has_several_outputs = True
    exchanges_models = True

    @property
    def has_server(self) -> bool:
        """False: clients send each other their models."""
        return False

    @property
    def seeks_consensus(self) -> bool:
        """True if clients average with neighbours and do nothing else."""
        return self.mixer.seeks_consensus

    @property
    def needs_all_models(self) -> bool:
        """True if a client averages the models that are nearest to its own."""
        return self.mixer.needs_all_models

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The measures of all models on all clients' data that the mixer depends on."""
        return self.mixer.readings

    @property
    def compares_replies(self) -> bool:
        """True: models are mixed when the last client has trained."""
        return True

    @property
    def min_cohort(self) -> int:
        """Two clients if models are mixed, otherwise one."""
        return 2 if self.mixer.moved(2) else 1

    def for_clients(self, clients: int) -> Self:
        """Return the routing with a mixer for a number of clients."""
        return replace(self, mixer=self.mixer.sized(clients))

    def outputs(self, clients: int) -> int:
        """Return the number of clients."""
        return clients

    def model(self, models: Variables, memory: dict[str, PyTree], client: Int[Array, ""]) -> Variables:  # noqa: ARG002
        """Return the client's own model."""
        own: Variables = jax.tree.map(lambda a: a[client], models)
        return own

    def peers(self, key: Key[Array, ""], replies: Replies, cohort: int, models: Variables) -> Int[Array, "K p"] | None:
        """Return the clients whose models each client averages, itself first; ``None`` for all clients."""
        return self.mixer.pick(key, replies, cohort, models)

    def exchange(
        self,
        models: Variables,  # noqa: ARG002
        trained: Variables,
        memory: dict[str, PyTree],
        replies: Replies,
        peers: Int[Array, "K p"] | None,
    ) -> tuple[Variables, dict[str, PyTree]]:
        """Return M·X, and the memory as it is."""
        return self.mixer.mix(replies, trained, peers), memory

    def matrix(self, replies: Replies, peers: Int[Array, "K p"] | None) -> Float[Array, "K K"]:
        """Return M."""
        return self.mixer.matrix(replies, peers)

    def models_sent(self, cohort: int, round: int, key: Callable[[], Key[Array, ""]]) -> int:
        """Return the number of models that clients send each other, or a server, in a round."""
        return cohort if self.has_server else self.mixer.sent(cohort, round, key)

    def mean_models_sent(self, cohort: int) -> int:
        """Return the number of models that clients send each other, or a server, in a round on average."""
        return cohort if self.has_server else self.mixer.moved(cohort)

    def models_down(self, clients: int) -> int:  # noqa: ARG002
        """Return 1 with a server. Models that clients send each other are counted once, as sent."""
        return int(self.has_server)

    def checked(self) -> Self:
        """Return the routing if the mixer's numbers can be used."""
        require(isinstance(self.mixer, Mixer), "mixer", "a Mixer, such as fl.mixing.gossip(...)", self.mixer)
        self.mixer.checked()
        needed = "one of push-sum's" if self.pushes else "one whose rows sum to one (push_sum is for others)"
        require(self.mixer.pushes == self.pushes, "topology", needed, self.mixer.describe())
        return self

    def describe(self) -> dict[str, Any]:
        """Return the mixer's name and numbers, and those of a subclass."""
        own = {} if type(self).__module__.startswith("fedloom.") else {"routing": type(self).__name__}
        return {**self.mixer.describe(), **own, **numbers_of(self)}


def own_models(mixer: Mixer = identity) -> OwnModels:
    """Return the routing in which every client has a model of its own.

    Args:
        mixer: the mixing matrix; by default the identity, so that clients share nothing.
    """
    return OwnModels(mixer).checked()
