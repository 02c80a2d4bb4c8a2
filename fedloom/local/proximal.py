"""Proximal: local work that is pulled back to the model with which it began (FedProx, Li et al. 2020)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from fedloom.errors import require
from fedloom.local.client import Client
from fedloom.local.message import Sent
from fedloom.local.penalty import ProximalPenalty
from fedloom.local.protocol import Local
from fedloom.local.work import Work
from fedloom.local.wrapper import LocalWrapper
from fedloom.trees import record

if TYPE_CHECKING:
    from fedloom.local.client import Scalar
    from fedloom.local.message import ClientState


@record
class Proximal(LocalWrapper):
    """Add a penalty for the distance to the model w_t with which a client's round begins:

        each step:  w ← w - η (∇ℓ(w) + μ (w - w_t))        the gradient of ℓ(w) + μ/2 · ‖w - w_t‖²

    w_t is the model that was sent, with a client's own layers if it has some. Build it with :func:`proximal`.
    """

    inner: Local
    mu: Scalar
    has_penalties = True

    def begin(self, sent: Sent, state: ClientState, client: Client) -> Work:
        """Return the inner work with the penalty."""
        work = self.inner.begin(sent, state, client)
        penalty = ProximalPenalty(self.mu, work.variables.params)
        return replace(work, penalties=(*work.penalties, penalty))

    def checked(self) -> Self:
        """Return the same work; raise an :class:`ArgumentError` if μ cannot be used."""
        require(bool(self.mu >= 0), "mu", "at least 0", self.mu)
        return super().checked()

    def label(self) -> str:
        """Return the name and μ."""
        return f"proximal({float(self.mu):g})"


def proximal(mu: float, local: Local) -> Proximal:
    """Pull local work back to the model with which it began.

    Arguments:
        mu: the strength μ; 0 is no pull.
        local: the work.

    >>> from fedloom.local import sgd
    >>> proximal(0.1, sgd(epochs=5)).describe()["work"]
    'proximal(0.1) of sgd'
    """
    return Proximal(local, mu).checked()
