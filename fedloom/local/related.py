"""Related: local work that is pulled towards related workers' models, and shrunk (multi-task learning)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import jax.numpy as jnp

from fedloom.local.client import Client
from fedloom.local.message import Sent
from fedloom.local.penalty import QuadraticPenalty
from fedloom.local.protocol import Local
from fedloom.local.work import Work
from fedloom.local.wrapper import LocalWrapper
from fedloom.tasks.task import Variables
from fedloom.trees import names, record

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from fedloom.local.message import ClientState

STRENGTH, SLOPE = "strength", "slope"


@record
class Related(LocalWrapper):
    """Add the quadratic penalty Σ strength/2 · ‖w‖² + ⟨slope, w⟩, over the arrays w of the parameters.

    ``strength`` and ``slope`` are broadcast: name of an array → a number, and an array of its shape.
    """

    inner: Local
    has_penalties = True

    def broadcast(self, variables: Variables) -> dict[str, PyTree]:
        """Return the inner broadcast, strengths of 0, and no slopes."""
        none = {name: jnp.float32(0) for name in names(variables.params)}
        return {**self.inner.broadcast(variables), STRENGTH: none, SLOPE: {}}

    def begin(self, sent: Sent, state: ClientState, client: Client) -> Work:
        """Return the inner work with the penalty."""
        work = self.inner.begin(sent, state, client)
        penalty = QuadraticPenalty(sent.broadcast[STRENGTH], sent.broadcast[SLOPE])
        return replace(work, penalties=(*work.penalties, penalty))

    def label(self) -> str:
        """Return the name."""
        return "related"
