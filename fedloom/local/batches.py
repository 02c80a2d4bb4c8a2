"""Batches: how a client goes through its examples in a round, and with which learning rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import number, require, whole
from fedloom.local.epochs import Epochs, described
from fedloom.shuffle import shuffle
from fedloom.trees import record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, UInt32

    Scalar = Float[Array, ""] | float
    Count = Int[Array | np.ndarray, "*shape"]

T = TypeVar("T")
CPU_PIECE = 200  # examples of a whole set that are computed at once on a CPU
ACCELERATOR_PIECE = 1000  # and on an accelerator
MAX_PADDING = 2 / 3  # rows of pieces that may be empty, over the examples there are
ROW_MULTIPLE = 16  # rows of pieces of unequal clients are multiples of this: other numbers are slow to multiply


@record
class StepPosition:
    """The place of a step in a client's work.

    Arguments:
        is_last: True for the last step of a batch, after which the optimiser moves.
        epoch: the number of the epoch, from 0 on.
    """

    is_last: Bool[Array, ""]
    epoch: Int[Array, ""]


@record
class Batches:
    """The batches of a client's round: E epochs in batches of B examples, or τ steps.

    Arguments:
        lr: the learning rate η.
        decay: the factor of the learning rate in each round.
        epochs: E, the passes over the client's examples: a number, an array of each client's number, or a description
            of these, until :meth:`for_clients` makes an array of it.
        batch_size: B; ``None`` is the client's whole set as one batch (B = ∞).
        microbatch: with B = ∞, the most examples that are computed at once; ``None`` chooses what suits the device.
        period: τ, the number of steps in a round, if it is not E epochs; epochs then go on from round to round.
        head_epochs: epochs before the others, in which private layers are trained alone (FedRep).
    """

    lr: Scalar
    decay: Scalar
    epochs: Any
    batch_size: int | None = static()
    microbatch: int | None = static(None)
    period: Int[Array, ""] | int | None = None
    head_epochs: Int[Array, ""] | int | None = None

    def for_clients(self, clients: int, names: Sequence[str] = ()) -> Self:
        """Return the batches of so many clients, described epochs drawn or read from their file.

        Raises:
            ArgumentError: there are epochs for another number of clients.
        """
        if isinstance(self.epochs, Epochs):
            return replace(self, epochs=self.epochs.of(clients, names))
        each = np.shape(self.epochs)
        require(each in ((), (clients,)), "epochs", f"one number for each of {clients:,} clients", f"{each} numbers")
        return self

    def of(self, client: Any) -> Self:
        """Return the batches of a client, or of several on the host: its epochs, where clients differ."""
        return replace(self, epochs=self.epochs[client]) if self.differ else self

    def of_one(self, client: int, name: str) -> Self:
        """Return the batches of a client by its number and its name, where it is not known how many clients there are.

        Raises:
            ArgumentError: the client has no epochs.
        """
        if isinstance(self.epochs, Epochs):
            return replace(self, epochs=self.epochs.one(client, name))
        need = f"given for {name}, which is client {client}"
        require(not self.differ or client < len(self.epochs), "epochs", need, f"{np.size(self.epochs)} numbers")
        return self.of(client)

    @property
    def differ(self) -> bool:
        """True if every client has epochs of its own."""
        return jnp.ndim(self.epochs) > 0

    @property
    def all_epochs(self) -> Any:
        """The number of epochs in a round, those for private layers included."""
        return self.epochs if self.head_epochs is None else self.epochs + self.head_epochs

    def steps(self, n: Count, rows: int, limit: Count | None = None) -> Count:
        """Return the number of steps of a client with n examples: 0 if it has none. Exact for numbers on the host.

        Args:
            n: the number of its examples.
            rows: the number of examples of a step.
            limit: the most optimiser steps that it has time for.
        """
        steps = self.all_epochs * -(-exact(n) // rows) if self.period is None else self.period * exact(n > 0)
        return steps if limit is None else jnp.minimum(steps, limit * (steps // jnp.maximum(self.moves(n), 1)))

    def moves(self, n: Count) -> Count:
        """Return the number of optimiser steps of a client with n examples: one for each epoch if B = ∞."""
        return self._moves(n, self.all_epochs)

    def shared_moves(self, n: Count, limit: Count | None = None) -> Count:
        """Return the number of optimiser steps of the shared model: those of private layers alone, which come first, do
        not count.
        """
        shared = self._moves(n, self.epochs)
        return shared if limit is None else jnp.clip(limit - (self.moves(n) - shared), 0, shared)

    def _moves(self, n: Count, epochs: Any) -> Count:
        if self.batch_size is None:
            return epochs * exact(n > 0)
        return epochs * -(-exact(n) // self.batch_size) if self.period is None else self.period * exact(n > 0)

    def most_steps(self, sizes: Int[np.ndarray, " clients"]) -> int:
        """Return the number of steps of the longest of clients of these sizes."""
        return int(np.max(self.steps(sizes, self.rows(sizes))))

    def rows(self, sizes: Int[np.ndarray, " clients"]) -> int:
        """Return the number of examples that one step computes on, for clients of these sizes.

        With B = ∞ a batch is computed in pieces: small enough for the memory, and so small that the empty rows of
        clients' last pieces are at most two thirds of the examples. Much smaller pieces would take more steps, and an
        accelerator takes hardly longer for a few rows than for many.
        """
        largest = int(sizes.max())
        if self.batch_size is not None:
            return min(self.batch_size, largest)
        piece = CPU_PIECE if jax.default_backend() == "cpu" else ACCELERATOR_PIECE
        rows = -(-largest // -(-largest // (self.microbatch or piece)))
        while int((-(-sizes // rows) * rows).sum()) > (1 + MAX_PADDING) * int(sizes.sum()):
            rows = (rows - 1) // ROW_MULTIPLE * ROW_MULTIPLE or -(-rows // 2)
        return rows

    def rate(self, round: Int[Array, ""]) -> Float[Array, ""]:
        """Return the learning rate of a round: lr · decay^round."""
        return jnp.asarray(self.lr * jnp.power(self.decay, round), float)

    def steps_before(self, round: Int[Array, ""]) -> Int[Array, ""]:
        """Return the number of steps before a round, if epochs go on from round to round; else 0."""
        return jnp.zeros_like(round) if self.period is None else round * self.period

    def shuffle_round(self, round: Int[Array, ""]) -> Int[Array, ""]:
        """Return the round whose order of examples a round uses: 0 if epochs go on from round to round, else itself."""
        return round if self.period is None else jnp.zeros_like(round)

    def accumulates(self, rows: int, largest: int) -> bool:
        """Return True if one batch takes several steps of so many rows, for the largest client."""
        return self.batch_size is None and rows < largest

    def batch(
        self, step: Int[Array, ""], n: Int[Array, ""], key: UInt32[Array, 2], rows: int
    ) -> tuple[Int[Array, " rows"], Float[Array, " rows"], StepPosition]:
        """Return the places of a step's examples among the client's n, each one's share of the batch's loss, and the
        position of the step.

        The last batch of an epoch is filled up with the epoch's first examples, whose shares are 0.
        """
        per_epoch = jnp.maximum(-(-n // rows), 1)
        epoch, within = step // per_epoch, step % per_epoch
        place = within * rows + jnp.arange(rows, dtype=jnp.int32)
        present = place < n
        place = place % jnp.maximum(n, 1)
        if self.batch_size is None:
            return place, present.astype(float) / jnp.maximum(n, 1), StepPosition(within == per_epoch - 1, epoch)
        share = present.astype(float) / jnp.maximum(jnp.minimum(n - within * rows, rows), 1)
        place = jnp.where(n > 0, shuffle(place, n, key, epoch), 0)
        return place, share, StepPosition(jnp.asarray(True), epoch)

    def checked(self) -> Self:
        """Return the same batches; raise an :class:`ArgumentError` if a number cannot be used."""
        batch_size = self.batch_size
        number("lr", self.lr, "above 0", lambda lr: lr > 0)
        differ = isinstance(self.epochs, Epochs) or self.differ
        if not differ:
            whole("epochs", self.epochs, 1)
            require(bool(self.epochs < 2**31), "epochs", "at most 2,147,483,647", self.epochs)
        if batch_size is not None:
            whole("batch_size", batch_size, 1)  # or all, which is None
            require(batch_size < 2**31, "batch_size", "at most 2,147,483,647, or all", batch_size)
        require(bool(0 < self.decay <= 1), "decay", "above 0 and at most 1", self.decay)
        require(self.microbatch is None or self.microbatch >= 1, "microbatch", "at least 1", self.microbatch)
        require(self.period is None or bool(self.period >= 1), "period", "at least 1 step", self.period)
        require(self.period is None or bool(self.period < 2**31), "period", "at most 2,147,483,647 steps", self.period)
        alone = self.period is None or (not differ and bool(self.epochs == 1))
        require(alone, "epochs", "left alone with a period", self.epochs)
        everything = batch_size is None and self.period is not None
        require(not everything, "batch_size", "a number, not all, with a period, which counts minibatches", batch_size)
        return self

    def describe(self) -> dict[str, Any]:
        """Return the options by name."""
        return {
            "epochs": described(self.epochs),
            "batch_size": self.batch_size,
            "lr": float(self.lr),
            "decay": float(self.decay),
            **({} if self.period is None else {"period": int(self.period)}),
        }


def exact(n: Any) -> Any:
    """Return host numbers in 64 bits, so that products with them are exact; a device's numbers stay as they are.

    >>> (10**9 * exact(np.array([600], np.int32))).tolist()
    [600000000000]
    """
    return n.astype(np.int64) if isinstance(n, np.ndarray | np.generic) else n


def for_clients(work: T, clients: int, names: Sequence[str] = ()) -> T:
    """Return work whose batches, wherever they stand in it, are those of so many clients."""
    return with_batches(work, lambda batches: batches.for_clients(clients, names))


def of_client(work: T, client: Any) -> T:
    """Return work whose batches, wherever they stand in it, are those of a client, or of several on the host."""
    return with_batches(work, lambda batches: batches.of(client))


def with_batches(work: T, change: Callable[[Batches], Batches]) -> T:
    """Return work with other batches, wherever they stand in it."""
    is_batches = lambda part: isinstance(part, Batches)  # noqa: E731
    changed: T = jax.tree.map(lambda part: change(part) if is_batches(part) else part, work, is_leaf=is_batches)
    return changed
