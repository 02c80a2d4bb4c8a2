"""Clusters: a few models, and each client of a round trains the model that suits its data (IFCA, Ghosh et al. 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp

from fedloom.combine.replies import Reading, Replies
from fedloom.combine.weighting import Weighting, by_size
from fedloom.errors import require
from fedloom.routing.one_server import weighted
from fedloom.routing.routing import Routing
from fedloom.tasks.task import Variables
from fedloom.trees import record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, PyTree

CHOICE = "choice"


@record
class Clusters(Routing):
    """One round over the models w_1 … w_c of c clusters:

        client k chooses      j(k) = argmin_j F_k(w_j), with F_k the loss on its training data
        it trains             w_j(k), which gives the update Δ_k
        cluster j receives    Σ_{k: j(k) = j} w_k Δ_k / Σ_{k: j(k) = j} w_k

    A cluster that no client chose stays as it is. Build it with :func:`clusters`.
    """

    weighting: Weighting
    count: int = static()

    has_several_outputs = True
    chooses = True

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The measures that the weighting depends on."""
        return self.weighting.readings

    @property
    def compares_replies(self) -> bool:
        """True: an update's output is not known in advance, so all updates of a round are kept."""
        return True

    def outputs(self, clients: int) -> int:  # noqa: ARG002
        """Return the number of clusters."""
        return self.count

    def memory(self, variables: Variables, clients: int) -> dict[str, PyTree]:  # noqa: ARG002
        """Return the cluster that each client chose last: the first one, before the first round."""
        return {CHOICE: jnp.zeros(clients, jnp.int32)}

    def model(self, models: Variables, memory: dict[str, PyTree], client: Int[Array, ""]) -> Variables:
        """Return the model of the cluster that a client chose last."""
        chosen: Variables = jax.tree.map(lambda a: a[memory[CHOICE][client]], models)
        return chosen

    def choose(self, losses: Float[Array, " outputs"]) -> Int[Array, ""]:
        """Return the cluster whose model has the lowest loss; a loss that is not finite never wins."""
        return jnp.argmin(jnp.where(jnp.isfinite(losses), losses, jnp.inf))

    def remember_choice(
        self, memory: dict[str, PyTree], clients: Int[Array, " m"], choice: Int[Array, " m"]
    ) -> dict[str, PyTree]:
        """Return the memory with the clusters that some clients chose; -1 is no client."""
        former = memory[CHOICE]
        at = jnp.where(clients >= 0, clients, len(former))
        return {**memory, CHOICE: former.at[at].set(choice, mode="drop")}

    def last_choice(self, memory: dict[str, PyTree]) -> Int[Array, "*lead K"]:
        """Return the cluster that each client chose last."""
        choice: Array = memory[CHOICE]
        return choice

    def weigh(self, replies: Replies) -> Float[Array, " m"]:
        """Return the weight of each reply to one cluster."""
        return self.weighting.weigh(replies)

    def total(self, replies: Replies, weights: Float[Array, " m"]) -> Float[Array, ""]:
        """Return the number by which the sum of a cluster's weighted updates is divided."""
        return self.weighting.total(replies, weights)

    def checked(self) -> Self:
        """Return the routing if its numbers can be used."""
        require(self.count >= 1, "clusters", "at least 1", self.count)
        weighted(self.weighting).checked()
        require(self.weighting.is_mean, "weighting", "one that makes a mean, with clusters", self.weighting.describe())
        return self

    def describe(self) -> dict[str, Any]:
        """Return the number of clusters, and the weighting's name and numbers."""
        return {"clusters": self.count, **self.weighting.describe()}


def clusters(count: int = 2, weighting: Weighting = by_size) -> Clusters:
    """Return the routing in which each client of a round chooses one of a few models.

    Args:
        count: the number of clusters.
        weighting: the weight of each update in its cluster.
    """
    return Clusters(weighting, count).checked()
