"""SCAFFOLD around SGD and around a user's own work, by hand."""

import jax
import numpy as np
import pytest
from one_client import a_client, replied
from own_work import BACKENDS, ETA, KINDS, X, model, own
from quadratic import quadratic

from fedloom.local import Sent, Sgd, scaffold


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kind", "g", "m"), KINDS)
def test_scaffold_by_hand(kind: type[Sgd], g: float, m: float, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    c, mine = 0.25, -0.5
    sent, state = Sent(model(1.0), {"control": model(c).params}), {"control": model(mine).params}
    reply = replied(scaffold(own(kind)), quadratic(), sent, state, [X, X], a_client(ETA, steps=2))
    y = 1.0
    for _ in range(2):
        y -= ETA * m * (g * (2 * y - 4) - mine + c)
    change = -c + (1.0 - y) / (2 * ETA)
    np.testing.assert_allclose(reply.message.mean["params"]["body"]["w"], y - 1.0, rtol=1e-5)
    np.testing.assert_allclose(reply.message.sum["control"]["body"]["w"], change, rtol=1e-5)
    np.testing.assert_allclose(reply.state["control"]["output"]["w"], mine + change, rtol=1e-5)
    local, client = scaffold(own(kind)), a_client(ETA, examples=0, steps=0)
    idle = local.end(local.begin(sent, state, client), sent, state, client)
    assert idle.message.sum["control"] == {"body": {"w": 0}, "output": {"w": 0}}
