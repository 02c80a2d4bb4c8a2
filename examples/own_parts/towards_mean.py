"""A routing of your own: every client keeps its own model and moves it towards the mean of all.

Run it: python examples/own_parts/towards_mean.py
"""

import jax
import jax.numpy as jnp

import fedloom as fl
from fedloom.mixing import identity
from fedloom.trees import record, where


@record
class TowardsMean(fl.routing.OwnModels):
    """x_k ← (1 - α) x_k + α mean_j x_j, where a server computes the mean."""

    alpha: float = 0.5
    has_server = True

    def exchange(self, models, trained, memory, replies, peers):  # noqa: ARG002
        """Return the clients' next models; a client that is absent keeps its own."""
        nearer = jax.tree.map(lambda x: (1 - self.alpha) * x + self.alpha * x.mean(0), trained)
        return where(replies.present, nearer, trained), memory

    def matrix(self, replies, peers):  # noqa: ARG002
        """Return the mixing matrix."""
        k = len(replies.examples)
        return (1 - self.alpha) * jnp.eye(k) + self.alpha / k


def method(alpha: float = 0.5, **options) -> fl.Method:
    """Return the method; the options are those of fedloom.local.sgd."""
    return fl.Method(fl.local.sgd(**options), TowardsMean(identity, alpha), fraction=1.0).checked()


if __name__ == "__main__":
    everybodys = fl.data.mnist().pool()
    data = everybodys.partition(fl.partition.shards(10), fl.split.stratified(validation=0.0, test=0.2))
    print(
        fl.run(data, fl.tasks.logistic(), method(lr=0.1, batch_size=100), rounds=3, evaluate=["test"]).history.rows[-1]
    )
