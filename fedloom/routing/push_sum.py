"""Push-sum: averaging along directed connections, where a client does not know who receives its model.

Every client splits its model and a mass, which begins as 1, among itself and its receivers (Nedić and Olshevsky 2016,
Assran et al. 2019). With A[i, j] = 1 / (1 + number of receivers of j), whose columns sum to one,

    x_k ← m_k z_k + local(z_k) - z_k,    x ← A·x,    m ← A·m,    z_k = x_k / m_k

and all z_k approach the mean of all models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.combine.replies import Replies
from fedloom.routing.own_models import OwnModels
from fedloom.tasks.task import Variables
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Int, PyTree

MASS = "mass"


@record
class PushSumModels(OwnModels):
    """Own models with masses; the models of a state are the z_k."""

    pushes = True

    def memory(self, variables: Variables, clients: int) -> dict[str, PyTree]:  # noqa: ARG002
        """Return a mass of 1 for each client."""
        return {MASS: jnp.ones(clients)}

    def exchange(
        self,
        models: Variables,
        trained: Variables,
        memory: dict[str, PyTree],
        replies: Replies,
        peers: Int[Array, "K p"] | None,
    ) -> tuple[Variables, dict[str, PyTree]]:
        """Return the models z and the masses m after clients have sent each other their parts."""
        mass, times = memory[MASS], jax.vmap(jnp.multiply)
        held = jax.tree.map(lambda z, new: times(mass, z) + new - z, models, trained)
        held, mass = self.mixer.mix(replies, (held, mass), peers)
        return jax.tree.map(lambda x: times(1 / mass, x), held), {MASS: mass}
