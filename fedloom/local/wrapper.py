"""LocalWrapper: local work that changes a few functions of other local work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from fedloom.errors import require
from fedloom.local.batches import Batches
from fedloom.local.client import Client
from fedloom.local.message import Reply, Sent
from fedloom.local.protocol import Local
from fedloom.local.work import StepBatch, Work
from fedloom.tasks.task import Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, PyTree

    from fedloom.local.message import ClientState


class LocalWrapper(Local):
    """Local work around other local work, ``inner``: every function that a subclass does not override is the inner one.

    A subclass that adds penalties in ``begin`` sets ``has_penalties = True``.
    """

    inner: Local

    @property
    def batches(self) -> Batches:
        """Batches of the inner work."""
        return self.inner.batches

    @property
    def gradients_per_step(self) -> int:
        """Number of gradients that an inner step computes."""
        return self.inner.gradients_per_step

    @property
    def idle_step_is_noop(self) -> bool:
        """True if that holds for the inner work and its step is not changed."""
        return self.inner.idle_step_is_noop and not self._changes_step

    @property
    def is_plain_sgd(self) -> bool:
        """True if that holds for the inner work."""
        return self.inner.is_plain_sgd

    @property
    def is_personal(self) -> bool:
        """True if that holds for the inner work."""
        return self.inner.is_personal

    @property
    def has_shared_model(self) -> bool:
        """True if that holds for the inner work."""
        return self.inner.has_shared_model

    @property
    def is_corrected(self) -> bool:
        """True if that holds for the inner work."""
        return self.inner.is_corrected

    @property
    def has_penalties(self) -> bool:
        """True if that holds for the inner work."""
        return self.inner.has_penalties

    @property
    def applies_penalties(self) -> bool:
        """True if the inner step adds the gradients of penalties, and is not overridden."""
        return type(self).step is LocalWrapper.step and self.inner.applies_penalties

    @property
    def has_default_step(self) -> bool:
        """True if the inner step consists of calls of ``gradient`` and ``move``, and is not overridden."""
        return type(self).step is LocalWrapper.step and self.inner.has_default_step

    @property
    def _overrides_model(self) -> bool:
        return type(self).model is not LocalWrapper.model

    @property
    def _splits_step(self) -> bool:
        of = type(self)
        return of.gradient is not LocalWrapper.gradient or of.move is not LocalWrapper.move

    @property
    def _changes_step(self) -> bool:
        return type(self).step is not LocalWrapper.step or self._splits_step

    def client_state(self, variables: Variables) -> ClientState:
        """Return the inner state."""
        return self.inner.client_state(variables)

    def broadcast(self, variables: Variables) -> dict[str, PyTree]:
        """Return the inner broadcast."""
        return self.inner.broadcast(variables)

    def private_leaves(self, variables: Variables) -> dict[str, Array]:
        """Return the inner work's private arrays."""
        return self.inner.private_leaves(variables)

    def model(self, variables: Variables, state: ClientState) -> Variables:
        """Return the inner work's model."""
        return self.inner.model(variables, state)

    def begin(self, sent: Sent, state: ClientState, client: Client) -> Work:
        """Return the inner work before its first step."""
        return self.inner.begin(sent, state, client)

    def gradient(self, task: Task, work: Work, batch: StepBatch, client: Client) -> tuple[PyTree, PyTree]:
        """Return the inner gradient."""
        return self.inner.gradient(task, work, batch, client)

    def move(self, work: Work, gradient: PyTree, client: Client) -> Work:
        """Return the work after the inner move."""
        return self.inner.move(work, gradient, client)

    def step(self, task: Task, work: Work, batch: StepBatch, client: Client) -> Work:
        """Return the work after the inner step, or after one that calls an overridden ``gradient`` or ``move``."""
        if self._splits_step:
            return super().step(task, work, batch, client)
        return self.inner.step(task, work, batch, client)

    def end(self, work: Work, sent: Sent, state: ClientState, client: Client) -> Reply:
        """Return the inner reply."""
        return self.inner.end(work, sent, state, client)

    def checked(self) -> Self:
        """Return the same work; raise an :class:`ArgumentError` if it or the inner work cannot be used."""
        self.inner.checked()
        called = not self._splits_step or self.inner.has_default_step
        need = f"work whose step calls the `gradient` and `move` that {type(self).__name__} overrides"
        require(called, "local", need, self.inner.describe().get("work", type(self.inner).__name__))
        return super().checked()

    def check(self, variables: Variables) -> None:
        """Raise an :class:`ArgumentError` if the inner work is not possible with such a model."""
        self.inner.check(variables)

    def describe(self) -> dict[str, Any]:
        """Return the inner options, and which work is around which."""
        inner = self.inner.describe()
        return {**inner, "work": f"{self.label()} of {inner.get('work', 'sgd')}"}

    def label(self) -> str:
        """Return the name of the wrapper, with its numbers."""
        return type(self).__name__
