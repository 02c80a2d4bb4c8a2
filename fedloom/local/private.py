"""Private: some layers are every client's own and never leave it.

The head: FedPer (Arivazhagan et al. 2019), or trained first and alone, FedRep (Collins et al. 2021); the layers that
normalise, with their statistics: FedBN (Li et al. 2021).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

import jax
import jax.numpy as jnp

from fedloom.errors import ArgumentError, require
from fedloom.local.batches import Batches
from fedloom.local.client import Client
from fedloom.local.message import Reply, Sent
from fedloom.local.protocol import Local
from fedloom.local.work import StepBatch, Work, with_params
from fedloom.local.wrapper import LocalWrapper
from fedloom.tasks.task import Task, Variables
from fedloom.trees import is_named, listed, names, record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Int, PyTree

    from fedloom.local.message import ClientState

PRIVATE = "private"


@record
class Private(LocalWrapper):
    """Train the shared layers that were sent together with the client's own, private ones.

    With ``head_epochs``, the private layers are trained first and alone, then the shared ones alone. Build it with
    :func:`private`.
    """

    inner: Local
    layers: tuple[str, ...] = static()
    head_epochs: Int[Array, ""] | int | None = None
    is_personal = True
    has_shared_model = False

    @property
    def batches(self) -> Batches:
        """Batches of the inner work, with the epochs of the private layers before them."""
        if self.head_epochs is None:
            return self.inner.batches
        return replace(self.inner.batches, head_epochs=self.head_epochs)

    @property
    def idle_step_is_noop(self) -> bool:
        """True if that holds for the inner work."""
        return self.inner.idle_step_is_noop

    @property
    def applies_penalties(self) -> bool:
        """True if the inner step adds the gradients of penalties."""
        return self.inner.applies_penalties

    @property
    def has_default_step(self) -> bool:
        """True if all layers are trained together, by such a step."""
        return self.head_epochs is None and self.inner.has_default_step

    def client_state(self, variables: Variables) -> ClientState:
        """Return the inner state and the private layers, at first those of the shared model."""
        return {**self.inner.client_state(variables), PRIVATE: self.private_leaves(variables)}

    def private_leaves(self, variables: Variables) -> dict[str, Array]:
        """Return the private arrays of a model, by name, with those of the inner work."""
        return {**self.inner.private_leaves(variables), **self._leaves(variables)}

    def model(self, variables: Variables, state: ClientState) -> Variables:
        """Return the inner work's model with the client's own layers."""
        return self.inner.model(completed(variables, state), state)

    def begin(self, sent: Sent, state: ClientState, client: Client) -> Work:
        """Return the inner work on the completed model."""
        return self.inner.begin(self._completed(sent, state), state, client)

    def step(self, task: Task, work: Work, batch: StepBatch, client: Client) -> Work:
        """Return the work after a step of all layers, or only of the private or the shared ones if they take turns."""
        after = self.inner.step(task, work, batch, client)
        if self.head_epochs is None:
            return after
        trains_head = batch.position.epoch < self.head_epochs
        params = jax.tree.map(
            lambda name, old, new: jnp.where(trains_head == self._is_private(name), new, old),
            named(work.variables).params,
            work.variables.params,
            after.variables.params,
        )
        return with_params(after, params, after.optimizer)

    def end(self, work: Work, sent: Sent, state: ClientState, client: Client) -> Reply:
        """Return the inner reply with zeros for the private layers, which become the client's state."""
        reply = self.inner.end(work, self._completed(sent, state), state, client)
        update = reply.message.mean
        shared = jax.tree.map(lambda name, a: jnp.zeros_like(a) if self._is_private(name) else a, named(update), update)
        message = replace(reply.message, mean=shared)
        return replace(reply, message=message, state={**reply.state, PRIVATE: self.private_leaves(work.variables)})

    def _is_private(self, name: str) -> bool:
        return is_named(name, *self.layers)

    def _leaves(self, variables: Variables) -> dict[str, Array]:
        leaves = zip(names(variables), jax.tree.leaves(variables), strict=True)
        return {name: leaf for name, leaf in leaves if self._is_private(name)}

    def _completed(self, sent: Sent, state: ClientState) -> Sent:
        return replace(sent, variables=completed(sent.variables, state))

    def checked(self) -> Self:
        """Return the same work; raise an :class:`ArgumentError` if its options cannot be used."""
        require(len(self.layers) > 0, "private", "at least one layer", self.layers)
        inner, alternates = self.inner.describe(), self.head_epochs is not None
        need = "work without scaffold, which goes around private layers and not inside: it would tell of them"
        require(not self.inner.is_corrected, "local", need, inner.get("work"))
        if self.head_epochs is not None:
            require(bool(self.head_epochs >= 1), "head_epochs", "at least 1", self.head_epochs)
            require(bool(self.head_epochs < 2**31), "head_epochs", "at most 2,147,483,647", self.head_epochs)
        plain = self.inner.is_plain_sgd or not alternates
        require(plain, "optimizer", "sgd where layers take turns, since others remember", inner.get("optimizer"))
        need = "left alone where layers take turns, which count epochs"
        require("period" not in inner or not alternates, "period", need, inner.get("period"))
        return super().checked()

    def check(self, variables: Variables) -> None:
        """Raise an :class:`ArgumentError` unless the model has such layers, and others."""
        every = names(variables)
        layers = sorted({name.split(".")[1] for name in every})
        for layer in self.layers:
            if not any(is_named(name, layer) for name in every):
                hint = ", for fedbn one that normalises, such as cnn-bn" if layer == "norm*" else ""
                raise ArgumentError("private", f"layers that the model has ({', '.join(layers)}){hint}", layer)
        if all(self._is_private(name) for name in names(variables) if name.startswith("params.")):
            raise ArgumentError("private", f"some of the model's layers ({', '.join(layers)}), not all", self.layers)
        super().check(variables)

    def label(self) -> str:
        """Return the name, the private layers, and the number of epochs in which they are trained first."""
        first = "" if self.head_epochs is None else f"; {int(self.head_epochs)} epochs first"
        return f"private({','.join(self.layers)}{first})"


def private(layers: str, local: Local, *, head_epochs: int | None = None) -> Private:
    """Make some layers every client's own.

    Arguments:
        layers: their names, comma-separated; ``*`` stands for anything: ``output``, ``norm*``.
        local: how a client trains.
        head_epochs: so many epochs are for the private layers alone, then the local work's for the others alone
            (FedRep); ``None`` trains all of them together (FedPer).

    >>> from fedloom.local import sgd
    >>> private("output", sgd(epochs=2), head_epochs=3).batches.all_epochs
    5
    """
    return Private(local, tuple(listed(layers)), head_epochs).checked()


def completed(variables: Variables, state: ClientState) -> Variables:
    """Return a model with the layers that are in a client's state."""
    whole: Variables = jax.tree.map(lambda name, a: state[PRIVATE].get(name, a), named(variables), variables)
    return whole


def named(tree: PyTree) -> PyTree:
    """Return a tree of the same structure, of the dotted names of its leaves."""
    return jax.tree.unflatten(jax.tree.structure(tree), names(tree))
