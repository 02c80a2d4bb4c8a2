"""Proximal: local work that is pulled back to the model it began with (FedProx, Li et al. 2020)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from fedloom.errors import require
from fedloom.local.local import Around, Local, Toward, Work
from fedloom.local.messages import Sent
from fedloom.trees import record

if TYPE_CHECKING:
    from fedloom.local.local import Kept, Scalar


@record
class Proximal(Around):
    """The loss has μ/2 · ‖w - w_t‖² more, w_t the model that was sent, with a client's own layers where it has some.
    Build it with :func:`proximal`.
    """

    inner: Local
    mu: Scalar

    def start(self, sent: Sent, kept: Kept, lr: Scalar, accumulates: bool) -> Work:
        """The inner work, pulled."""
        work = self.inner.start(sent, kept, lr, accumulates)
        return replace(work, pulls=(*work.pulls, Toward(self.mu, work.variables.params)))

    def checked(self) -> Self:
        """The same, if μ can be used."""
        require(bool(self.mu >= 0), "mu", "at least 0", self.mu)
        return super().checked()

    def called(self) -> str:
        """Its name and μ."""
        return f"proximal({float(self.mu):g})"


def proximal(mu: float, local: Local) -> Proximal:
    """Local work that is pulled back to the model it began with.

    Arguments:
        mu: how strongly; 0 is not at all.
        local: the work.

    >>> from fedloom.local import sgd
    >>> proximal(0.1, sgd(epochs=5)).describe()["work"]
    'proximal(0.1) of sgd'
    """
    return Proximal(local, mu).checked()
