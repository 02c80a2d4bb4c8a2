"""Flax's own loop over clients, for `users_models.py`: one step, compiled by ``jax.jit``, called batch by batch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import networks_flax
import numpy as np
import optax
from contenders import Job, Loop
from jax.flatten_util import ravel_pytree
from networks import MOMENTUM

import fedloom as fl
from fedloom.engines.schedule import INIT, stream


class FlaxLoop(Loop):
    """A loop around a compiled step, with optax."""

    def prepare(self, job: Job) -> int:
        """Build the network and place the examples; return how many numbers the model has."""
        jax.clear_caches()
        self.job, network = job, job.described
        module, shape = networks_flax.build(network), networks_flax.shape(network)
        x, y = job.draw()
        x = x if network.tokens else np.moveaxis(x, 2, -1) if len(shape) == 3 else x
        self.x, self.y = jnp.asarray(x), jnp.asarray(y)
        task = fl.tasks.from_flax(module, inputs=None if network.tokens else shape, like=x[0, 0])
        self.start = self.weights = jax.jit(task.init)(stream(job.seed, INIT)).params
        optimizer = optax.sgd(network.lr, MOMENTUM)

        def loss(params: Any, x: Any, y: Any) -> Any:
            return optax.softmax_cross_entropy_with_integer_labels(module.apply({"params": params}, x), y).mean()

        def step(params: Any, memory: Any, client: Any, rows: Any) -> Any:
            gradient = jax.grad(loss)(params, self.x[client, rows], self.y[client, rows])
            change, memory = optimizer.update(gradient, memory)
            return optax.apply_updates(params, change), memory

        self.step, self.loss_of, self.at_rest = jax.jit(step), jax.jit(loss), jax.jit(optimizer.init)
        flat, self.parts = ravel_pytree(self.start)
        self.divided = jax.jit(lambda total, by: jax.tree.map(lambda a: a / by, total))
        self.added = jax.jit(lambda a, b: jax.tree.map(jnp.add, a, b))
        return len(flat)

    def train(self, weights: Any, client: int, order: np.ndarray) -> Any:
        """Return the weights after a client's epoch."""
        memory = self.at_rest(weights)
        for i in range(0, len(order), self.job.batch):
            weights, memory = self.step(weights, memory, client, order[i : i + self.job.batch])
        return weights

    def add(self, total: Any, weights: Any) -> Any:
        """Return the sum."""
        return self.added(total, weights)

    def divide(self, total: Any, by: int) -> Any:
        """Return the quotient."""
        return self.divided(total, by)

    def wait(self) -> None:
        """Return when the device has done its work."""
        jax.block_until_ready(self.weights)

    def flat(self, weights: Any) -> np.ndarray:
        """Return weights as one array of float32."""
        return np.asarray(ravel_pytree(weights)[0])

    def judge(self, weights: Any) -> float:
        """Return the loss of the first client's examples."""
        return float(self.loss_of(weights, self.x[0], self.y[0]))
