"""Local work of your own: SGD whose steps all have the same length.

Run it: python examples/own_parts/normalised_sgd.py
"""

import jax
import optax

import fedloom as fl
from fedloom.local import Sgd, sgd
from fedloom.trees import record


@record
class NormalisedSgd(Sgd):
    """w ← w - η g / ‖g‖, with g the gradient of a batch."""

    def move(self, work, gradient, client):
        """Return the work after a step along the normalised gradient."""
        length = optax.tree.norm(gradient)
        return super().move(work, jax.tree.map(lambda g: g / (length + 1e-8), gradient), client)


def method(**options) -> fl.Method:
    """Return federated averaging with this work; the options are those of fedloom.local.sgd."""
    plain = sgd(**options)
    return fl.fedavg(local=NormalisedSgd(plain.batches, plain.optimizer), fraction=1.0)


if __name__ == "__main__":
    data = fl.data.mnist().partition(fl.partition.iid(10))
    print(
        fl.run(data, fl.tasks.logistic(), method(lr=0.1, batch_size=100), rounds=3, evaluate=["test"]).history.rows[-1]
    )
