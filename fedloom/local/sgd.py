"""Local SGD: ClientUpdate of Algorithm 1 (McMahan et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedloom.errors import choose, require
from fedloom.local.reply import Reply
from fedloom.shuffle import shuffle
from fedloom.tasks.task import Batch, Task, Variables
from fedloom.trees import record, static, subtract, where

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt32

    Scalar = Float[Array, ""] | float


SHORT = 0.5  # rows that pieces of batches may be short by, over the examples there are


def momentum(lr: Any) -> optax.GradientTransformation:
    """SGD with momentum 0.9."""
    return optax.sgd(lr, momentum=0.9)


OPTIMIZERS: dict[str, Callable[..., optax.GradientTransformation]] = {
    "sgd": optax.sgd,
    "momentum": momentum,
    "adam": optax.adam,
    "adagrad": optax.adagrad,
    "rmsprop": optax.rmsprop,
}


@record
class Work:
    """A client's work in progress: the variables it trains and what its optimiser remembers."""

    variables: Variables
    optimizer: PyTree
    gradient: PyTree


@record
class Sgd:
    """E epochs of minibatch SGD.

        B ← (split the client's examples, shuffled anew each epoch, into batches of size B)
        for each local epoch, for each batch b:  w ← w - η ∇ℓ(w; b)

    Build it with :func:`sgd`, which checks its arguments.
    """

    lr: Scalar
    decay: Scalar
    epochs: Int[Array, ""] | int
    batch_size: int | None = static()
    microbatch: int = static()
    optimizer: Callable[..., optax.GradientTransformation] = static()

    def rows(self, sizes: Int[np.ndarray, " clients"]) -> int:
        """How many examples one step computes on, for clients of these sizes.

        With B = ∞ a batch is computed in pieces: small enough for the memory, and so small that the rows by which
        clients' last pieces are short are at most half of the examples.
        """
        largest = int(sizes.max())
        if self.batch_size is not None:
            return min(self.batch_size, largest)
        pieces = -(-largest // self.microbatch)
        rows = -(-largest // pieces)
        while int((-(-sizes // rows) * rows).sum()) > (1 + SHORT) * int(sizes.sum()):
            pieces *= 2
            rows = -(-largest // pieces)
        return rows

    def steps(self, n: Int[Array, "*shape"], rows: int) -> Int[Array, "*shape"]:
        """How many steps a client with n examples takes."""
        return self.epochs * -(-n // rows)

    def rate(self, round: Int[Array, ""]) -> Float[Array, ""]:
        """η of a round: lr · decay^round."""
        return jnp.asarray(self.lr * jnp.power(self.decay, round), jnp.float32)

    def batch(
        self, step: Int[Array, ""], n: Int[Array, ""], key: UInt32[Array, 2], rows: int
    ) -> tuple[Int[Array, " rows"], Float[Array, " rows"], Bool[Array, ""]]:
        """Which of a client's n examples a step trains on, each one's share of the batch's loss (nothing for the rows
        by which the last batch is short), and whether the optimiser moves after it.
        """
        per_epoch = jnp.maximum(-(-n // rows), 1)
        epoch, within = step // per_epoch, step % per_epoch
        place = within * rows + jnp.arange(rows, dtype=jnp.int32)
        present = place < n
        if self.batch_size is None:
            return jnp.where(present, place, 0), present / jnp.maximum(n, 1), within == per_epoch - 1
        shuffled = shuffle(place, n, key, epoch)
        share = present / jnp.maximum(jnp.minimum(n - within * rows, rows), 1)
        return jnp.where(present, shuffled, 0), share, jnp.asarray(True)

    @property
    def scales_loss(self) -> bool:
        """Whether the learning rate multiplies the loss: with SGD and nothing more, on an accelerator."""
        return self.optimizer is optax.sgd and jax.default_backend() != "cpu"

    def accumulates(self, rows: int, largest: int) -> bool:
        """Whether the gradient of one batch is summed over several steps."""
        return self.batch_size is None and rows < largest

    def start(self, variables: Variables, lr: Scalar, accumulates: bool) -> Work:
        """A client's work, not begun."""
        gradient = jax.tree.map(jnp.zeros_like, variables.params) if accumulates else None
        return Work(variables, self.optimizer(lr).init(variables.params), gradient)

    def step(
        self,
        task: Task,
        work: Work,
        batch: Batch,
        share: Float[Array, " rows"],
        last: Bool[Array, ""],
        lr: Scalar,
        key: Key[Array, ""],
    ) -> Work:
        """One step: w ← w - η ∇ Σ share·ℓ, or one more term of the gradient where a batch takes several steps.

        On an accelerator plain SGD is computed as w + ∇ Σ (-η·share)·ℓ, which is the same; but η then scales a few
        losses and not every gradient, and the compiler adds a gradient's matrix product right into the weights.
        """
        scale = -lr if self.scales_loss else 1.0

        def total(params: PyTree) -> tuple[Float[Array, ""], PyTree]:
            losses, state = task.loss(Variables(params, work.variables.state), batch, key)
            return jnp.sum(scale * share * losses), state

        params = work.variables.params
        gradient, state = jax.grad(total, has_aux=True)(params)
        if work.gradient is None:
            params, memory = self.move(params, gradient, work.optimizer, lr)
            return Work(Variables(params, state), memory, None)
        gradient = jax.tree.map(jnp.add, work.gradient, gradient)
        moved, memory = self.move(params, gradient, work.optimizer, lr)
        params, memory = where(last, (moved, memory), (params, work.optimizer))
        gradient = where(last, jax.tree.map(jnp.zeros_like, gradient), gradient)
        return Work(Variables(params, state), memory, gradient)

    def move(self, params: PyTree, gradient: PyTree, memory: PyTree, lr: Scalar) -> tuple[PyTree, PyTree]:
        """The optimiser's step."""
        if self.scales_loss:
            return optax.apply_updates(params, gradient), memory
        change, memory = self.optimizer(lr).update(gradient, memory, params)
        return optax.apply_updates(params, change), memory

    def describe(self) -> dict[str, Any]:
        """What it is made of, by name."""
        return {
            "epochs": int(self.epochs),
            "batch_size": self.batch_size,
            "lr": float(self.lr),
            "decay": float(self.decay),
            "optimizer": getattr(self.optimizer, "__name__", repr(self.optimizer)),
        }

    def finish(self, work: Work, sent: Variables, n: Int[Array, ""]) -> Reply:
        """The reply of a client that has done its work."""
        return Reply(subtract(work.variables, sent), n.astype(jnp.float32))


def checked_sgd(local: Sgd) -> Sgd:
    """The same, if its numbers can be used."""
    lr, epochs, batch_size, decay = local.lr, local.epochs, local.batch_size, local.decay
    microbatch = local.microbatch
    require(bool(lr > 0), "lr", "above 0", lr)
    require(bool(epochs >= 1), "epochs", "at least 1", epochs)
    require(batch_size is None or batch_size >= 1, "batch_size", "at least 1 (or all: None in Python)", batch_size)
    require(bool(0 < decay <= 1), "decay", "above 0 and at most 1", decay)
    require(microbatch >= 1, "microbatch", "at least 1", microbatch)
    return local


def sgd(
    lr: float = 0.1,
    *,
    epochs: int = 1,
    batch_size: int | None = 10,
    decay: float = 1.0,
    optimizer: str | Callable[..., optax.GradientTransformation] = "sgd",
    microbatch: int = 200,
) -> Sgd:
    """E epochs of minibatch SGD on a client's own examples.

    Arguments:
        lr: the learning rate η.
        epochs: E, passes over the client's examples.
        batch_size: B; ``None`` is the client's whole set as one batch (B = ∞).
        decay: the learning rate is multiplied by this every round.
        optimizer: a name, or any function from a learning rate to an optax transformation.
        microbatch: with B = ∞, at most how many examples are in memory at once; the result does not depend on it.

    >>> sgd(lr=0.1, epochs=0)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: epochs must be at least 1, but is 0
    """
    chosen = choose("optimizer", optimizer, OPTIMIZERS) if isinstance(optimizer, str) else optimizer
    return checked_sgd(Sgd(lr, decay, epochs, batch_size, microbatch, chosen))
