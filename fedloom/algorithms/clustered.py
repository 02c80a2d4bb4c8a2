"""Clustered federation: a few models, and every client trains the one that suits it (IFCA, Ghosh et al. 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from fedloom.algorithms.algorithm import cohort
from fedloom.combine.replies import Reading
from fedloom.combine.weighting import Weighting, by_size
from fedloom.errors import require
from fedloom.local import Local, Sent, given
from fedloom.selection import check_selection, describe_selection
from fedloom.tasks.task import Variables
from fedloom.trees import record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Int


@record
class ClusterState:
    """The clusters' models, one beside the other; the cluster that each client chose last; and the round's number."""

    variables: Variables
    choice: Int[Array, " clients"]
    round: Int[Array, ""]

    @property
    def sent(self) -> Sent:
        """All models: a client takes its choice."""
        return Sent(self.variables, {})


@record
class Clustered:
    """One round, over the models w_1 … w_k of k clusters:

        each client of the cohort chooses:    c = argmin_j F(w_j) on its training data
        it works locally from w_c
        w_j ← w_j + the mean update of those that chose j; unchanged if nobody did

    Build it with :func:`ifca`.
    """

    local: Local
    weighting: Weighting
    fraction: float = static()
    clusters: int = static()
    selection: str = static(default="uniform", kw_only=True)

    stacked = True
    apart = True
    personal = True
    has_shared_model = False
    has_server = True
    least = 1

    def cohort(self, clients: int) -> int:
        """How many clients take part in a round."""
        return cohort(self.fraction, clients)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Nothing."""
        return ()

    def sized(self, clients: int) -> Clustered:  # noqa: ARG002
        """The same for so many clients."""
        return self

    def checked(self) -> Clustered:
        """The same, if its numbers can be used."""
        require(self.clusters >= 1, "clusters", "at least 1", self.clusters)
        require(self.weighting.alone, "weighting", "size or uniform with clusters", self.weighting.describe())
        require(0 <= self.fraction <= 1, "fraction", "between 0 and 1", self.fraction)
        check_selection(self.selection, self.fraction)
        self.local.checked()
        return self

    def describe(self) -> dict[str, Any]:
        """What it is made of, by name."""
        return {"fraction": self.fraction, **describe_selection(self.selection), "clusters": self.clusters,
                **self.local.describe(), **self.weighting.describe()}  # fmt: skip

    def init(self, variables: Variables, clients: int) -> ClusterState:
        """The state before the first round, from the clusters' models; nobody has chosen."""
        return ClusterState(variables, jnp.zeros(clients, jnp.int32), jnp.int32(0))

    def model(self, state: ClusterState, client: Int[Array, ""]) -> Variables:
        """The model of the cluster that a client chose."""
        own: Variables = jax.tree.map(lambda a: a[state.choice[client]], state.variables)
        return own


def ifca(
    clusters: int = 2,
    *,
    fraction: float = 0.1,
    selection: str = "uniform",
    weighting: Weighting = by_size,
    local: Local | None = None,
    **local_options: Any,
) -> Clustered:
    """Clustered federation: a few models that begin apart; every client trains the one with the lowest loss on its
    training data.

    Arguments:
        clusters: how many models.
        fraction: C, the share of clients in a round.
        selection: how they are selected; see :data:`fedloom.selection.SELECTIONS`.
        weighting: how much each reply counts in its cluster: ``by_size`` or ``uniform``.
        local: what a client does; or give the arguments of :func:`fedloom.local.sgd` here.

    >>> ifca(3, lr=0.1).clusters
    3
    """
    work = given(local, local_options, "clusters", "fraction", "selection", "local", "weighting")
    return Clustered(work, weighting, fraction, clusters, selection=selection).checked()
