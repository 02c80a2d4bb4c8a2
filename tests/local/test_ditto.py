"""Ditto around SGD and around a user's own work, by hand."""

import jax
import numpy as np
import pytest
from one_client import a_client, replied
from own_work import BACKENDS, ETA, KINDS, X, body, model, own
from quadratic import quadratic

from fedloom.local import Sent, Sgd, ditto


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kind", "g", "m"), KINDS)
def test_ditto_by_hand(kind: type[Sgd], g: float, m: float, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    sent, state = Sent(model(1.0), {}), {"own": model(0.0)}
    reply = replied(ditto(0.5, own(kind)), quadratic(), sent, state, [X, X], a_client(ETA))
    w, v = 1.0, 0.0
    for _ in range(2):
        w, v = w - ETA * m * g * (2 * w - 4), v - ETA * m * (g * (2 * v - 4) + 0.5 * (v - 1.0))
    np.testing.assert_allclose(reply.message.mean["params"]["body"]["w"], w - 1.0, rtol=1e-5)
    np.testing.assert_allclose(body(reply.state["own"]), v, rtol=1e-5)
    assert body(ditto(0.5, own(kind)).model(model(1.0), {"own": model(3.0)})) == 3.0
