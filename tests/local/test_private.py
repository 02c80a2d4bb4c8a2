"""Private layers that take turns with the shared ones, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from one_client import a_client, as_step, replied
from own_work import BACKENDS, ETA, KINDS, X, model, own
from quadratic import quadratic

from fedloom.local import Sent, Sgd, private


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kind", "g", "m"), KINDS)
def test_private_by_hand(kind: type[Sgd], g: float, m: float, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One step of the private output, then one of the shared body; the output stays at home."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    local = private("output", own(kind), head_epochs=1)
    state = {"private": {"params.output.w": jnp.float32(3.0)}}
    epochs = [as_step(X.examples, epoch=epoch) for epoch in (0, 1)]
    reply = replied(local, quadratic(), Sent(model(2.0), {}), state, epochs, a_client(ETA))
    b = 3.0 - ETA * m * g * (2.0 + 3.0 - 4)
    a = 2.0 - ETA * m * g * (2.0 + b - 4)
    np.testing.assert_allclose(reply.message.mean["params"]["body"]["w"], a - 2.0, rtol=1e-5)
    assert reply.message.mean["params"]["output"]["w"] == 0
    np.testing.assert_allclose(reply.state["private"]["params.output.w"], b, rtol=1e-6)
    whole = local.model(model(2.0), state).params
    assert (whole["body"]["w"], whole["output"]["w"]) == (2.0, 3.0)
