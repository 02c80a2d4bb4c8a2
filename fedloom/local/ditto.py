"""Ditto: a model of one's own beside the shared one, pulled towards it (Li et al. 2021)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from fedloom.errors import require
from fedloom.local.local import Around, Local, Step, Toward, Work
from fedloom.local.messages import Reply, Sent
from fedloom.tasks.task import Task, Variables
from fedloom.trees import record

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Array, Int

    from fedloom.local.local import Kept, Scalar

OWN = "own"


@record
class Ditto(Around):
    """While a client trains the shared model w as the others do, it trains its own, v_k, on the same batches:

        v_k ← v_k - η (∇ℓ(v_k) + μ (v_k - w_t)),       w_t the model that was sent

    It uses v_k and sends back what it learned of w. Build it with :func:`ditto`.
    """

    inner: Local
    mu: Scalar

    @property
    def personal(self) -> bool:
        """Every client uses its own model."""
        return True

    def taken(self, n: Int[Array | np.ndarray, "*shape"]) -> Int[Array | np.ndarray, "*shape"]:
        """Those of the shared model, and as many of its own."""
        return 2 * self.inner.taken(n)

    def still(self, work: Work) -> bool:  # noqa: ARG002
        """No: the pull moves it."""
        return False

    def keeps(self, variables: Variables) -> Kept:
        """Its own model, at first the one that everybody begins with."""
        return {**self.inner.keeps(variables), OWN: variables}

    def model(self, variables: Variables, kept: Kept) -> Variables:  # noqa: ARG002
        """Its own."""
        own: Variables = kept[OWN]
        return own

    def start(self, sent: Sent, kept: Kept, lr: Scalar, accumulates: bool) -> Work:
        """The inner work, and the same on its own model, pulled."""
        own = self.inner.start(replace(sent, variables=kept[OWN]), kept, lr, accumulates)
        pull = Toward(self.mu, sent.variables.params)
        beside = replace(own, pulls=(*own.pulls, pull))
        return replace(self.inner.start(sent, kept, lr, accumulates), beside=beside)

    def step(self, task: Task, work: Work, given: Step) -> Work:
        """One step of both."""
        assert work.beside is not None
        beside = self.inner.step(task, work.beside, given)
        return replace(self.inner.step(task, work, given), beside=beside)

    def finish(self, work: Work, sent: Sent, kept: Kept, n: Int[Array, ""], lr: Scalar) -> tuple[Reply, Kept]:
        """The inner reply, and its own model."""
        assert work.beside is not None
        reply, rest = self.inner.finish(work, sent, kept, n, lr)
        return reply, {**rest, OWN: work.beside.variables}

    def checked(self) -> Self:
        """The same, if μ can be used."""
        require(bool(self.mu >= 0), "mu", "at least 0", self.mu)
        outside = "work without scaffold, which goes around ditto and not inside it"
        require(not self.inner.corrected, "local", outside, self.inner.describe().get("work"))
        outside = "work without layers or a model of one's own, which go around ditto and not inside it"
        require(not self.inner.personal, "local", outside, self.inner.describe().get("work"))
        return super().checked()

    def called(self) -> str:
        """Its name and μ."""
        return f"ditto({float(self.mu):g})"


def ditto(mu: float, local: Local) -> Ditto:
    """A model of one's own beside the shared one.

    Arguments:
        mu: how strongly it is pulled towards the shared model; 0 is local training alone.
        local: how both are trained.

    >>> from fedloom.local import sgd
    >>> ditto(-1, sgd())
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: mu must be at least 0, but is -1
    """
    return Ditto(local, mu).checked()
