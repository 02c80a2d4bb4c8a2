"""Local SGD: ClientUpdate of Algorithm 1 (McMahan et al. 2017)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import optax

from fedloom.errors import UnknownName, choose, require
from fedloom.local.batches import Batches
from fedloom.local.client import Client
from fedloom.local.epochs import parsed
from fedloom.local.message import Message, Reply, Sent
from fedloom.local.protocol import Local
from fedloom.local.work import StepBatch, Work, apply_gradient, with_params
from fedloom.tasks.task import Task, Variables
from fedloom.trees import record, static, subtract

if TYPE_CHECKING:
    from jaxtyping import Array, Float, PyTree

    from fedloom.local.client import Scalar
    from fedloom.local.message import ClientState


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
    """E epochs of minibatch SGD, or τ steps of it.

        B ← (split the client's examples, shuffled anew each epoch, into batches of size B)
        for each local epoch, for each batch b:  w ← w - η ∇ℓ(w; b)

    Build it with :func:`sgd`, which checks its arguments.
    """

    batches: Batches
    optimizer: Callable[..., optax.GradientTransformation] = static()

    @property
    def is_plain_sgd(self) -> bool:
        """True if the optimiser is SGD without momentum."""
        return self.optimizer is optax.sgd

    @property
    def is_single_gradient(self) -> bool:
        """True if nothing is overridden, and the client's whole set is one batch of one step."""
        b = self.batches
        once = b.batch_size is None and b.period is None and not b.differ and int(b.epochs) == 1
        return type(self) is Sgd and self.is_plain_sgd and once

    @property
    def scales_loss(self) -> bool:
        """True if the learning rate multiplies the loss: plain SGD on an accelerator, with no function overridden."""
        unchanged = type(self).gradient is Sgd.gradient and type(self).move is Sgd.move
        return unchanged and self.is_plain_sgd and jax.default_backend() != "cpu"

    @property
    def idle_step_is_noop(self) -> bool:
        """True if a step adds the gradient of a loss that is 0."""
        return self.scales_loss and type(self).step is Sgd.step

    @property
    def applies_penalties(self) -> bool:
        """True unless a subclass overrides ``step``."""
        return type(self).step is Sgd.step

    @property
    def has_default_step(self) -> bool:
        """True unless a subclass overrides ``step``."""
        return type(self).step is Sgd.step

    def begin(self, sent: Sent, state: ClientState, client: Client) -> Work:  # noqa: ARG002
        """Return work on the model that was sent."""
        return Work(sent.variables, self.optimizer(client.lr).init(sent.variables.params))

    def gradient(self, task: Task, work: Work, batch: StepBatch, client: Client) -> tuple[PyTree, PyTree]:  # noqa: ARG002
        """Return ∇ Σ share·ℓ, and the model's non-trainable state after it."""
        return scaled_gradient(task, work, batch, 1.0)

    def move(self, work: Work, gradient: PyTree, client: Client) -> Work:
        """Return the work after w ← w - η · gradient, or after another optimiser's step."""
        params = work.variables.params
        change, memory = self.optimizer(client.lr).update(gradient, work.optimizer, params)
        return with_params(work, optax.apply_updates(params, change), memory)

    def step(self, task: Task, work: Work, batch: StepBatch, client: Client) -> Work:
        """Return the work after w ← w - η ∇ (Σ share·ℓ + penalties), or after a part of a batch that takes several.

        On an accelerator plain SGD is computed as w + ∇ Σ (-η·share)·ℓ, which is the same; but η then scales a few
        losses and not every gradient, and the compiler adds a gradient's matrix product right into the weights.
        """
        if not self.scales_loss:
            return super().step(task, work, batch, client)
        scale = -client.lr
        gradient, state = scaled_gradient(task, work, batch, scale)
        return apply_gradient(work, batch, gradient, state, add_to_params, scale)

    def end(self, work: Work, sent: Sent, state: ClientState, client: Client) -> Reply:  # noqa: ARG002
        """Return the change of the model; the client's state stays as it is."""
        update = subtract(work.variables, sent.variables)
        return Reply(Message({"params": update.params, "state": update.state}), state)

    def checked(self) -> Self:
        """Return the same work; raise an :class:`ArgumentError` if a number cannot be used."""
        self.batches.checked()
        return super().checked()

    def describe(self) -> dict[str, Any]:
        """Return the options by name."""
        subclass = {} if type(self) is Sgd else {"work": type(self).__name__}
        return {**self.batches.describe(), "optimizer": called(self.optimizer), **subclass}


def scaled_gradient(task: Task, work: Work, batch: StepBatch, scale: Scalar) -> tuple[PyTree, PyTree]:
    """Return ∇ Σ scale·share·ℓ, and the model's non-trainable state after it."""

    def total(params: PyTree) -> tuple[Float[Array, ""], PyTree]:
        losses, state = task.loss(Variables(params, work.variables.state), batch.examples, batch.key)
        return jnp.sum(scale * batch.shares * losses), state

    found: tuple[PyTree, PyTree] = jax.grad(total, has_aux=True)(work.variables.params)
    return found


def add_to_params(work: Work, change: PyTree) -> Work:
    """Return the work with a change added to its parameters."""
    return with_params(work, optax.apply_updates(work.variables.params, change), work.optimizer)


def sgd(
    lr: float = 0.1,
    *,
    epochs: int | str | Sequence[int] | None = None,
    batch_size: int | None = 10,
    decay: float = 1.0,
    optimizer: str | Callable[..., optax.GradientTransformation] = "sgd",
    microbatch: int | None = None,
    period: int | None = None,
) -> Sgd:
    """Train by E epochs of minibatch SGD on a client's own examples.

    Arguments:
        lr: the learning rate η.
        epochs: E, passes over the client's examples; 1 by default. Where clients differ: each client's number, or
            ``"lognormal:2:0.5"`` (the median, and the spread of the logarithm), ``"uniform:1:5"``, or a CSV file with
            the columns client and epochs.
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
    batches = Batches(lr, decay, 1 if epochs is None else parsed(epochs), batch_size, microbatch, period)
    return Sgd(batches, chosen).checked()


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
