"""Local work of a user's own, which overrides one function of SGD, and what it starts from."""

from typing import Any

import jax
import jax.numpy as jnp
from one_client import as_step

from fedloom.local import Sgd, sgd
from fedloom.tasks import Variables
from fedloom.trees import record

X = as_step({"x": jnp.array([4.0])})
ETA = 0.1


@record
class Doubled(Sgd):
    """Twice the gradient."""

    def gradient(self, task: Any, work: Any, batch: Any, client: Any) -> Any:
        gradient, state = super().gradient(task, work, batch, client)
        return jax.tree.map(lambda g: 2 * g, gradient), state


@record
class Faster(Sgd):
    """Twice the step."""

    def move(self, work: Any, gradient: Any, client: Any) -> Any:
        return super().move(work, jax.tree.map(lambda g: 2 * g, gradient), client)


def own(kind: type[Sgd]) -> Sgd:
    plain = sgd(ETA)
    return kind(plain.batches, plain.optimizer).checked()


def model(w: float) -> Variables:
    return Variables({"body": {"w": jnp.float32(w)}, "output": {"w": jnp.float32(w)}}, {})


def body(variables: Variables) -> float:
    return float(variables.params["body"]["w"])


KINDS = [(Sgd, 1, 1), (Doubled, 2, 1), (Faster, 1, 2)]  # a class, the factor of its gradient, of its step
BACKENDS = ["cpu", "gpu"]
