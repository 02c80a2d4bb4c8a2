"""Local SGD: ClientUpdate of Algorithm 1 (McMahan et al. 2017)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedloom.errors import UnknownName, choose, number, require, whole
from fedloom.local.counting import exact
from fedloom.local.local import Local, Step, Turn, Work
from fedloom.local.messages import Reply, Sent
from fedloom.shuffle import shuffle
from fedloom.tasks.task import Task, Variables
from fedloom.trees import record, static, subtract, where

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, PyTree, UInt32

    Scalar = Float[Array, ""] | float
    Kept = dict[str, PyTree]


PIECES = {"cpu": 200}  # examples of a whole set that are computed at once, by device
LARGEST = 1000  # and on accelerators, which want many
SHORT = 2 / 3  # rows that pieces of batches may be short by, over the examples there are
ROUND = 16  # rows of which pieces of unequal clients are multiples: other numbers are slow to multiply


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
class Sgd(Local):
    """E epochs of minibatch SGD, or so many steps of it.

        B ← (split the client's examples, shuffled anew each epoch, into batches of size B)
        for each local epoch, for each batch b:  w ← w - η ∇ℓ(w; b)

    Build it with :func:`sgd`, which checks its arguments.
    """

    lr: Scalar
    decay: Scalar
    epochs: Int[Array, ""] | int
    batch_size: int | None = static()
    microbatch: int | None = static()
    optimizer: Callable[..., optax.GradientTransformation] = static()
    period: Int[Array, ""] | int | None = None

    def begun(self, round: Int[Array, ""]) -> Int[Array, ""]:
        """τ·round with a period of τ steps, whose epochs go on from round to round; else 0."""
        return jnp.zeros_like(round) if self.period is None else round * self.period

    def ordered(self, round: Int[Array, ""]) -> Int[Array, ""]:
        """0 with a period, else the round."""
        return round if self.period is None else jnp.zeros_like(round)

    def steps(self, n: Int[Array | np.ndarray, "*shape"], rows: int) -> Int[Array | np.ndarray, "*shape"]:
        """Return the number of steps of a client with n examples: 0 if it has none. Exact for numbers on the host."""
        return self.epochs * -(-exact(n) // rows) if self.period is None else self.period * exact(n > 0)

    def moves(self, n: Int[Array | np.ndarray, "*shape"]) -> Int[Array | np.ndarray, "*shape"]:
        """Return how often the optimiser of a client with n examples moves: once an epoch with B = ∞."""
        return self.epochs * exact(n > 0) if self.batch_size is None else self.steps(n, self.batch_size)

    def rows(self, sizes: Int[np.ndarray, " clients"]) -> int:
        """How many examples one step computes on, for clients of these sizes.

        With B = ∞ a batch is computed in pieces: small enough for the memory, and so small that the rows by which
        clients' last pieces are short are at most two thirds of the examples. Much smaller ones would take more steps,
        and an accelerator takes hardly longer for a few rows than for many.
        """
        largest = int(sizes.max())
        if self.batch_size is not None:
            return min(self.batch_size, largest)
        pieces = -(-largest // (self.microbatch or PIECES.get(jax.default_backend(), LARGEST)))
        rows = -(-largest // pieces)
        while int((-(-sizes // rows) * rows).sum()) > (1 + SHORT) * int(sizes.sum()):
            rows = (rows - 1) // ROUND * ROUND or -(-rows // 2)
        return rows

    def rate(self, round: Int[Array, ""]) -> Float[Array, ""]:
        """η of a round: lr · decay^round."""
        return jnp.asarray(self.lr * jnp.power(self.decay, round), float)

    def batch(
        self, step: Int[Array, ""], n: Int[Array, ""], key: UInt32[Array, 2], rows: int
    ) -> tuple[Int[Array, " rows"], Float[Array, " rows"], Turn]:
        """Which of a client's n examples a step trains on, each one's share of the batch's loss (nothing for the rows
        by which the last batch is short, which are the epoch's first), and where the step stands.
        """
        per_epoch = jnp.maximum(-(-n // rows), 1)
        epoch, within = step // per_epoch, step % per_epoch
        place = within * rows + jnp.arange(rows, dtype=jnp.int32)
        present = place < n
        place = place % jnp.maximum(n, 1)
        if self.batch_size is None:
            return place, present.astype(float) / jnp.maximum(n, 1), Turn(within == per_epoch - 1, epoch)
        share = present.astype(float) / jnp.maximum(jnp.minimum(n - within * rows, rows), 1)
        return jnp.where(n > 0, shuffle(place, n, key, epoch), 0), share, Turn(jnp.asarray(True), epoch)

    @property
    def plain(self) -> bool:
        """Whether the optimiser is SGD."""
        return self.optimizer is optax.sgd

    @property
    def scales_loss(self) -> bool:
        """Whether the learning rate multiplies the loss: with SGD and nothing more, on an accelerator."""
        return self.plain and jax.default_backend() != "cpu"

    def accumulates(self, rows: int, largest: int) -> bool:
        """Whether the gradient of one batch is summed over several steps."""
        return self.batch_size is None and rows < largest

    def still(self, work: Work) -> bool:
        """Whether a step in which no example has a share changes nothing."""
        return self.scales_loss and not jax.tree.leaves(work.variables.state) and not work.pulls

    def start(self, sent: Sent, kept: Kept, lr: Scalar, accumulates: bool) -> Work:  # noqa: ARG002
        """A client's work, not begun."""
        variables = sent.variables
        gradient = jax.tree.map(jnp.zeros_like, variables.params) if accumulates else None
        return Work(variables, self.optimizer(lr).init(variables.params), gradient)

    def step(self, task: Task, work: Work, given: Step) -> Work:
        """One step: w ← w - η ∇ (Σ share·ℓ + pulls), or one more term of the gradient where a batch takes several.

        On an accelerator plain SGD is computed as w + ∇ Σ (-η·share)·ℓ, which is the same; but η then scales a few
        losses and not every gradient, and the compiler adds a gradient's matrix product right into the weights.
        """
        scale, last = -given.lr if self.scales_loss else 1.0, given.turn.last

        def total(params: PyTree) -> tuple[Float[Array, ""], PyTree]:
            losses, state = task.loss(Variables(params, work.variables.state), given.batch, given.key)
            return jnp.sum(scale * given.share * losses), state

        params = work.variables.params
        gradient, state = jax.grad(total, has_aux=True)(params)
        whole = gradient if work.gradient is None else jax.tree.map(jnp.add, work.gradient, gradient)
        pulled = whole
        for pull in work.pulls:
            pulled = jax.tree.map(lambda g, p: g + scale * p, pulled, pull.gradient(params))
        moved, memory = self.move(params, pulled, work.optimizer, given.lr)
        if work.gradient is None:
            return replace(work, variables=Variables(moved, state), optimizer=memory)
        moved, memory = where(last, (moved, memory), (params, work.optimizer))
        left = where(last, jax.tree.map(jnp.zeros_like, whole), whole)
        return replace(work, variables=Variables(moved, state), optimizer=memory, gradient=left)

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
            "optimizer": called(self.optimizer),
            **({} if self.period is None else {"period": int(self.period)}),
        }

    def finish(self, work: Work, sent: Sent, kept: Kept, n: Int[Array, ""], lr: Scalar) -> tuple[Reply, Kept]:  # noqa: ARG002
        """The reply of a client that has done its work; it keeps nothing."""
        return Reply(subtract(work.variables, sent.variables), n.astype(jnp.float32), {}), kept

    def checked(self) -> Self:
        """The same, if its numbers can be used."""
        batch_size = self.batch_size
        number("lr", self.lr, "above 0", lambda lr: lr > 0)
        whole("epochs", self.epochs, 1)
        require(bool(self.epochs < 2**31), "epochs", "at most 2,147,483,647", self.epochs)
        if batch_size is not None:
            whole("batch_size", batch_size, 1)  # or all, which is None
            require(batch_size < 2**31, "batch_size", "at most 2,147,483,647, or all", batch_size)
        require(bool(0 < self.decay <= 1), "decay", "above 0 and at most 1", self.decay)
        require(self.microbatch is None or self.microbatch >= 1, "microbatch", "at least 1", self.microbatch)
        require(self.period is None or bool(self.period >= 1), "period", "at least 1 step", self.period)
        require(self.period is None or bool(self.period < 2**31), "period", "at most 2,147,483,647 steps", self.period)
        require(self.period is None or bool(self.epochs == 1), "epochs", "left alone with a period", self.epochs)
        everything = batch_size is None and self.period is not None
        require(not everything, "batch_size", "a number, not all, with a period, which counts minibatches", batch_size)
        return self


def sgd(
    lr: float = 0.1,
    *,
    epochs: int | None = None,
    batch_size: int | None = 10,
    decay: float = 1.0,
    optimizer: str | Callable[..., optax.GradientTransformation] = "sgd",
    microbatch: int | None = None,
    period: int | None = None,
) -> Sgd:
    """E epochs of minibatch SGD on a client's own examples.

    Arguments:
        lr: the learning rate η.
        epochs: E, passes over the client's examples; 1 by default.
        batch_size: B; ``None`` is the client's whole set as one batch (B = ∞).
        decay: the learning rate is multiplied by this every round.
        optimizer: a name, or any function from a learning rate to an optax transformation.
        microbatch: with B = ∞, at most how many examples are in memory at once, if not what suits the device; the
            result does not depend on it.
        period: τ, so many steps a round instead of epochs; a client's epochs then go on from round to round.

    >>> sgd(lr=0.1, epochs=0)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: epochs must be at least 1, but is 0
    """
    chosen = choose("optimizer", optimizer, OPTIMIZERS) if isinstance(optimizer, str) else optimizer
    require(period is None or epochs is None, "epochs", "left alone with a period", epochs)
    return Sgd(lr, decay, 1 if epochs is None else epochs, batch_size, microbatch, chosen, period).checked()


def called(function: Callable[..., Any]) -> str:
    """The name of a function, also of one whose first arguments are given.

    >>> from functools import partial
    >>> called(optax.sgd), called(partial(optax.sgd, momentum=0.5))
    ('sgd', 'sgd')
    """
    return str(getattr(getattr(function, "func", function), "__name__", type(function).__name__))


def given(local: Local | None, options: Mapping[str, Any], *others: str) -> Local:
    """Local work, or SGD by its arguments; an unknown one lists these, and what else an algorithm takes.

    >>> given(None, {"learning_rate": 0.1}, "fraction")
    Traceback (most recent call last):
    fedloom.errors.UnknownName: an argument must be one of batch_size, decay, epochs, fraction, lr, microbatch, \
optimizer, period, but is 'learning_rate'
    """
    require(local is None or not options, "local", "given alone, or by its arguments", sorted(options))
    known = list(inspect.signature(sgd).parameters)
    for name in options:
        if name not in known:
            raise UnknownName("an argument", name, [*known, *others])
    return local or sgd(**options)
