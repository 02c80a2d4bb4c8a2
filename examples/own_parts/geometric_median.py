"""An aggregator of your own: the geometric median.

Run it: python examples/own_parts/geometric_median.py
"""

import jax
import jax.numpy as jnp

import fedloom as fl
from fedloom.combine import Combiner
from fedloom.trees import record


@record
class GeometricMedian(Combiner):
    """argmin_Δ Σ_k w_k ‖Δ - Δ_k‖ by Weiszfeld's algorithm: Δ ← Σ_k v_k Δ_k / Σ_k v_k with v_k = w_k / ‖Δ - Δ_k‖."""

    steps: int = 8

    def combine(self, updates, weights):
        """Return the geometric median of the updates that have weight."""

        def mean(v):
            return jax.tree.map(lambda u: jnp.einsum("m,m...->...", v / jnp.maximum(v.sum(), 1e-9), u), updates)

        def nearer(_, found):
            away = jax.tree.map(lambda u, a: jnp.sum((u - a) ** 2, axis=tuple(range(1, u.ndim))), updates, found)
            return mean(weights / jnp.maximum(jnp.sqrt(sum(jax.tree.leaves(away))), 1e-6))

        return jax.lax.fori_loop(0, self.steps, nearer, mean(weights))


def method(**options) -> fl.Method:
    """Return federated averaging with this aggregator; the options are those of fedloom.fedavg."""
    return fl.fedavg(combiner=GeometricMedian(), fraction=1.0, **options)


if __name__ == "__main__":
    data = fl.data.mnist().partition(fl.partition.iid(10))
    print(
        fl.run(data, fl.tasks.logistic(), method(lr=0.1, batch_size=100), rounds=3, evaluate=["test"]).history.rows[-1]
    )
