"""Ditto: each client has a model of its own beside the shared one, pulled towards it (Li et al. 2021)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from fedloom.errors import require
from fedloom.local.client import Client
from fedloom.local.message import Reply, Sent
from fedloom.local.penalty import ProximalPenalty
from fedloom.local.protocol import Local
from fedloom.local.work import StepBatch, Work
from fedloom.local.wrapper import LocalWrapper
from fedloom.tasks.task import Task, Variables
from fedloom.trees import record

if TYPE_CHECKING:
    from fedloom.local.client import Scalar
    from fedloom.local.message import ClientState

OWN = "own"


@record
class Ditto(LocalWrapper):
    """Train the shared model w as other work does, and on the same batches the client's own model v_k:

        each step:  v_k ← v_k - η (∇ℓ(v_k) + μ (v_k - w_t)),       w_t the model that was sent

    The client uses v_k and sends the update of w. Build it with :func:`ditto`.
    """

    inner: Local
    mu: Scalar
    is_personal = True
    has_penalties = True
    idle_step_is_noop = False

    @property
    def gradients_per_step(self) -> int:
        """Twice the inner number: for the shared model and for the client's own."""
        return 2 * self.inner.gradients_per_step

    @property
    def applies_penalties(self) -> bool:
        """True if the inner step adds the gradients of penalties."""
        return self.inner.applies_penalties

    def client_state(self, variables: Variables) -> ClientState:
        """Return the inner state and v_k, at first the shared model."""
        return {**self.inner.client_state(variables), OWN: variables}

    def model(self, variables: Variables, state: ClientState) -> Variables:  # noqa: ARG002
        """Return v_k."""
        own: Variables = state[OWN]
        return own

    def begin(self, sent: Sent, state: ClientState, client: Client) -> Work:
        """Return the inner work on w; its companion is the inner work on v_k with the penalty."""
        own = self.inner.begin(replace(sent, variables=state[OWN]), state, client)
        penalty = ProximalPenalty(self.mu, sent.variables.params)
        companion = replace(own, penalties=(*own.penalties, penalty))
        return replace(self.inner.begin(sent, state, client), companion=companion)

    def step(self, task: Task, work: Work, batch: StepBatch, client: Client) -> Work:
        """Return the work after a step of both models."""
        assert work.companion is not None
        companion = self.inner.step(task, work.companion, batch, client)
        return replace(self.inner.step(task, work, batch, client), companion=companion)

    def end(self, work: Work, sent: Sent, state: ClientState, client: Client) -> Reply:
        """Return the inner reply, and the new v_k."""
        assert work.companion is not None
        reply = self.inner.end(work, sent, state, client)
        return replace(reply, state={**reply.state, OWN: work.companion.variables})

    def checked(self) -> Self:
        """Return the same work; raise an :class:`ArgumentError` if μ or the inner work cannot be used."""
        require(bool(self.mu >= 0), "mu", "at least 0", self.mu)
        work = self.inner.describe().get("work")
        need = "work without scaffold, which goes around ditto and not inside it"
        require(not self.inner.is_corrected, "local", need, work)
        need = "work without layers or a model of one's own, which go around ditto and not inside it"
        require(not self.inner.is_personal, "local", need, work)
        return super().checked()

    def label(self) -> str:
        """Return the name and μ."""
        return f"ditto({float(self.mu):g})"


def ditto(mu: float, local: Local) -> Ditto:
    """Train a model of the client's own beside the shared one.

    Arguments:
        mu: the strength of the pull towards the shared model; 0 is local training alone.
        local: the training of both.

    >>> from fedloom.local import sgd
    >>> ditto(-1, sgd())
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: mu must be at least 0, but is -1
    """
    return Ditto(local, mu).checked()
