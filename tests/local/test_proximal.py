"""FedProx around SGD and around a user's own work, by hand."""

import jax
import numpy as np
import pytest
from one_client import a_client, worked
from own_work import BACKENDS, ETA, KINDS, X, body, model, own
from quadratic import quadratic

from fedloom.local import Sent, Sgd, proximal


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kind", "g", "m"), KINDS)
def test_proximal_by_hand(kind: type[Sgd], g: float, m: float, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    work = worked(proximal(0.5, own(kind)), quadratic(), Sent(model(0.0), {}), {}, [X, X, X], a_client(ETA))
    w = 0.0
    for _ in range(3):
        w -= ETA * m * (g * (2 * w - 4) + 0.5 * w)
    np.testing.assert_allclose(body(work.variables), w, rtol=1e-5)
