"""Push-sum: averaging where workers need not hear whom they tell (Nedić and Olshevsky 2016, Assran et al. 2019).

Everybody splits what it has, and a mass that begins as 1, among itself and those who hear it: A[i, j] = 1 / (1 + how
many hear j), whose columns sum to one and whose rows need not. Some then have more than others; a model is what one has
over one's mass, and so all come to the mean of all.

    x_k ← x_k + local(z_k) - z_k,   x ← A·x,   m ← A·m,   z_k = x_k / m_k
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from fedloom.algorithms.dpa_sgd import OPTIONS, Along, mixed
from fedloom.algorithms.personalised import PeerState, Personalised
from fedloom.combine.replies import Replies
from fedloom.local import given
from fedloom.mixing.gossip import PUSH
from fedloom.tasks.task import Variables
from fedloom.trees import record

if TYPE_CHECKING:
    from fedloom.mixing.mixer import Who

MASS = "mass"


@record
class PushSum(Personalised):
    """Decentralised averaging with masses; the state holds the models z. Build it with :func:`push_sum`."""

    pushes = True

    def init(self, variables: Variables, clients: int) -> PeerState:
        """All begin with the same model, and a mass of 1."""
        begun = super().init(variables, clients)
        return PeerState(begun.variables, begun.round, {MASS: jnp.ones(clients)})

    def exchanged(self, state: PeerState, replies: Replies, trained: Variables, who: Who) -> PeerState:
        """The state after users have trained, and pushed what they have."""
        mass, times = state.memory[MASS], jax.vmap(jnp.multiply)
        held = jax.tree.map(lambda z, new: times(mass, z) + new - z, state.variables, trained)
        held, mass = self.mixer.mix(replies, (held, mass), who)  # type: ignore[arg-type, misc]
        models = jax.tree.map(lambda x: times(1 / mass, x), held)
        return PeerState(models, state.round + 1, {MASS: mass})


def push_sum(topology: Along = "ring", *, period: int = 5, **options: Any) -> PushSum:
    """Every worker takes τ steps of SGD on its own data, then pushes what it has to those who hear it, along a directed
    graph: stochastic gradient push.

    Arguments:
        topology: by name (see :func:`fedloom.mixing.topology`), a CSV file of pairs, a graph (also networkx's), or
            what :func:`fedloom.mixing.pushed` makes of it.
        period: τ, the steps between two exchanges.
        options: the arguments of :func:`fedloom.local.sgd`, and the options of the topology.

    >>> push_sum(lr=0.05).describe()["weights"]
    'push'
    """
    mixer = mixed(topology, PUSH, options)
    made = PushSum(given(None, {"period": period, **options}, "topology", *OPTIONS), mixer, 1.0)
    made.checked()
    return made
