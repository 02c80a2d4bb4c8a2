"""The server's step is Reddi et al.'s (2021), Algorithm 2."""

import numpy as np
import optax
import pytest

import fedloom as fl

B1, B2, TAU = 0.9, 0.99, 1e-3
UPDATES = np.array([[0.5, -2e-4, 0.0], [0.1, 3e-4, 0.0], [-0.7, 1e-3, 2e-3]])  # Δ, round by round


def by_hand(name: str, lr: float) -> np.ndarray:
    """The weights after all rounds, from zero."""
    w, m, v = np.zeros(3), np.zeros(3), np.full(3, TAU**2)
    b1 = 0.0 if name == "adagrad" else B1
    for delta in UPDATES:
        m = b1 * m + (1 - b1) * delta
        if name == "adagrad":
            v = v + delta**2
        elif name == "adam":
            v = B2 * v + (1 - B2) * delta**2
        else:
            v = v - (1 - B2) * delta**2 * np.sign(v - delta**2)
        w = w + lr * m / (np.sqrt(v) + TAU)
    return w


@pytest.mark.parametrize("name", ["adagrad", "adam", "yogi"])
def test_an_adaptive_server_is_algorithm_2(name: str) -> None:
    step = fl.server(name, lr=0.1).transformation()
    w = {"w": np.zeros(3, np.float32)}
    state = step.init(w)
    for delta in UPDATES.astype(np.float32):
        changes, state = step.update({"w": -delta}, state, w)
        w = optax.apply_updates(w, changes)
    np.testing.assert_allclose(w["w"], by_hand(name, 0.1), rtol=1e-5)
    if name != "yogi":
        assert abs(float(w["w"][0])) < 0.3  # a step is about the rate, whatever the size of the update


def test_momentum_is_for_the_server_that_has_one() -> None:
    assert fl.server("momentum").momentum == 0.9
    with pytest.raises(fl.errors.ArgumentError, match="server_momentum must be left alone with the server adam"):
        fl.server("adam", momentum=0.5)
    with pytest.raises(fl.errors.ArgumentError, match="server_momentum must be left alone with the server average"):
        fl.Experiment(server_momentum=0.5)
