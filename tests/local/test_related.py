"""Multi-task penalties around SGD and around a user's own work, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from one_client import a_client, worked
from own_work import BACKENDS, ETA, KINDS, X, body, model, own
from quadratic import quadratic

from fedloom.local import Sent, Sgd
from fedloom.local.related import SLOPE, STRENGTH, Related


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kind", "g", "m"), KINDS)
def test_related_by_hand(kind: type[Sgd], g: float, m: float, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    strength = {"body.w": jnp.float32(0.5), "output.w": jnp.float32(2.0)}
    sent = Sent(model(1.0), {STRENGTH: strength, SLOPE: {"output.w": jnp.float32(3.0)}})
    work = worked(Related(own(kind)).checked(), quadratic(), sent, {}, [X, X], a_client(ETA))
    a, b = 1.0, 1.0
    for _ in range(2):
        pull = g * (a + b - 4)
        a, b = a - ETA * m * (pull + 0.5 * a), b - ETA * m * (pull + 2 * b + 3)
    np.testing.assert_allclose(body(work.variables), a, rtol=1e-5)
    np.testing.assert_allclose(work.variables.params["output"]["w"], b, rtol=1e-5)
