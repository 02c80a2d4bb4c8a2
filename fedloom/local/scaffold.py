"""Scaffold: local work corrected for the drift of unlike clients (Karimireddy et al. 2020)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

import jax
import jax.numpy as jnp

from fedloom.errors import require
from fedloom.local.client import Client
from fedloom.local.message import Reply, Sent
from fedloom.local.penalty import LinearPenalty
from fedloom.local.protocol import Local
from fedloom.local.work import Work
from fedloom.local.wrapper import LocalWrapper
from fedloom.tasks.task import Variables
from fedloom.trees import record, subtract

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from fedloom.local.message import ClientState

CONTROL = "control"


@record
class Scaffold(LocalWrapper):
    """Every client has a control c_k, an estimate of its own gradient; c is the mean of all clients' controls.

        each step:   y ← y - η (∇ℓ(y) - c_k + c)
        at the end:  c_k ← c_k - c + (x - y) / (S·η)       S steps from x to y (option II of the paper)
        the server:  c ← c + Σ_k Δc_k / K

    Build it with :func:`scaffold`.
    """

    inner: Local
    is_corrected = True
    has_penalties = True

    def client_state(self, variables: Variables) -> ClientState:
        """Return the inner state and c_k = 0."""
        return {**self.inner.client_state(variables), CONTROL: zeros(variables.params)}

    def broadcast(self, variables: Variables) -> dict[str, PyTree]:
        """Return the inner broadcast and c = 0."""
        return {**self.inner.broadcast(variables), CONTROL: zeros(variables.params)}

    def begin(self, sent: Sent, state: ClientState, client: Client) -> Work:
        """Return the inner work with c - c_k added to every gradient."""
        work = self.inner.begin(sent, state, client)
        correction = LinearPenalty(subtract(sent.broadcast[CONTROL], state[CONTROL]))
        return replace(work, penalties=(*work.penalties, correction))

    def end(self, work: Work, sent: Sent, state: ClientState, client: Client) -> Reply:
        """Return the inner reply with Δc_k, and the new c_k. A client without examples changes nothing."""
        reply = self.inner.end(work, sent, state, client)
        length = client.lr * jnp.maximum(client.steps, 1)  # S·η
        change = jax.tree.map(
            lambda c, update: jnp.where(client.examples > 0, -c - update / length, 0),
            sent.broadcast[CONTROL],
            reply.message.mean["params"],
        )
        control = jax.tree.map(jnp.add, state[CONTROL], change)
        message = replace(reply.message, sum={**reply.message.sum, CONTROL: change})
        return replace(reply, message=message, state={**reply.state, CONTROL: control})

    def checked(self) -> Self:
        """Return the same work; raise an :class:`ArgumentError` unless the optimiser is plain SGD.

        With another one, (x - y) / (S·η) is no gradient.
        """
        inner = self.inner.describe()
        require(self.inner.is_plain_sgd, "optimizer", "sgd with scaffold", inner.get("optimizer"))
        need = "work without scaffold, to be corrected by it"
        require(not self.inner.is_corrected, "local", need, inner.get("work"))
        return super().checked()

    def label(self) -> str:
        """Return the name."""
        return "scaffold"


def scaffold(local: Local) -> Scaffold:
    """Correct local work for the drift of unlike clients; each client keeps a control of the model's size.

    >>> from fedloom.local import sgd
    >>> scaffold(sgd(optimizer="adam"))
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: optimizer must be sgd with scaffold, but is 'adam'
    """
    return Scaffold(local).checked()


def zeros(tree: PyTree) -> PyTree:
    """Return a tree of zeros of the same shapes."""
    return jax.tree.map(jnp.zeros_like, tree)
