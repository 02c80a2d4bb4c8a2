"""Scaffold: local work corrected for the drift of unlike clients (Karimireddy et al. 2020)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

import jax
import jax.numpy as jnp

from fedloom.errors import require
from fedloom.local.local import Along, Around, Local, Work
from fedloom.local.messages import Reply, Sent
from fedloom.tasks.task import Variables
from fedloom.trees import record, subtract

if TYPE_CHECKING:
    from jaxtyping import Array, Int, PyTree

    from fedloom.local.local import Kept, Scalar

CONTROL = "control"


@record
class Scaffold(Around):
    """Every client keeps a control c_k, an estimate of its own gradient; c is the mean of all clients' controls.

        each step:   y ← y - η (∇ℓ(y) - c_k + c)
        at the end:  c_k ← c_k - c + (x - y) / (S·η)       S steps from x to y (option II of the paper)
        the server:  c ← c + Σ_k Δc_k / K

    Build it with :func:`scaffold`.
    """

    inner: Local

    @property
    def corrected(self) -> bool:
        """Yes."""
        return True

    def keeps(self, variables: Variables) -> Kept:
        """Its control, zero at first."""
        return {**self.inner.keeps(variables), CONTROL: zeros(variables.params)}

    def tells(self, variables: Variables) -> dict[str, PyTree]:
        """The mean control."""
        return {**self.inner.tells(variables), CONTROL: zeros(variables.params)}

    def start(self, sent: Sent, kept: Kept, lr: Scalar, accumulates: bool) -> Work:
        """The inner work, along c - c_k."""
        work = self.inner.start(sent, kept, lr, accumulates)
        return replace(work, pulls=(*work.pulls, Along(subtract(sent.aside[CONTROL], kept[CONTROL]))))

    def finish(self, work: Work, sent: Sent, kept: Kept, n: Int[Array, ""], lr: Scalar) -> tuple[Reply, Kept]:
        """The inner reply with the change of its control, and the control. Who has no examples changes nothing."""
        reply, rest = self.inner.finish(work, sent, kept, n, lr)
        way = lr * jnp.maximum(self.moves(n), 1)
        change = jax.tree.map(lambda c, u: jnp.where(n > 0, -c - u / way, 0), sent.aside[CONTROL], reply.update.params)
        control = jax.tree.map(jnp.add, kept[CONTROL], change)
        return replace(reply, aside={**reply.aside, CONTROL: change}), {**rest, CONTROL: control}

    def checked(self) -> Self:
        """The same, if the optimiser is plain SGD, without which (x - y) / (S·η) is no gradient."""
        told = self.inner.describe()
        require(self.inner.plain, "optimizer", "sgd with scaffold", told["optimizer"])
        require(not self.inner.corrected, "local", "work without scaffold, to be corrected by it", told.get("work"))
        return super().checked()

    def called(self) -> str:
        """Its name."""
        return "scaffold"


def scaffold(local: Local) -> Scaffold:
    """Local work corrected for the drift of unlike clients; each keeps a control of the model's size.

    >>> from fedloom.local import sgd
    >>> scaffold(sgd(optimizer="adam"))
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: optimizer must be sgd with scaffold, but is 'adam'
    """
    return Scaffold(local).checked()


def zeros(tree: PyTree) -> PyTree:
    """A tree of zeros like another."""
    return jax.tree.map(jnp.zeros_like, tree)
