"""Keras's recurrent layers: the numbers and gradients of Keras, and Keras itself where the layers do more."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom.tasks.keras_recurrence as ours
from fedloom.tasks.replacing import replaced

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras")
if keras.backend.backend() != "jax":
    pytest.skip("keras was imported with another backend", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras' variables
layers = keras.layers
X = np.random.default_rng(0).standard_normal((3, 4, 2)).astype(np.float32)

SAME = {
    "lstm": lambda: layers.LSTM(5, return_sequences=True),
    "lstm, its last output and state": lambda: layers.LSTM(5, return_state=True, use_bias=False),
    "lstm backwards": lambda: layers.LSTM(5, return_sequences=True, go_backwards=True),
    "gru": lambda: layers.GRU(5, return_sequences=True, bias_initializer="normal"),
    "gru, its last output and state": lambda: layers.GRU(5, return_state=True, use_bias=False),
    "both ways": lambda: layers.Bidirectional(layers.GRU(5, return_sequences=True)),
}
OTHER = {
    "dropout": lambda: layers.LSTM(5, dropout=0.5),
    "recurrent dropout": lambda: layers.GRU(5, recurrent_dropout=0.5),
    "another activation": lambda: layers.LSTM(5, activation="relu"),
    "reset before": lambda: layers.GRU(5, reset_after=False),
}


def traced(layer: Any) -> tuple[Any, list[Any]]:
    """A layer's outputs and the gradients of their sum of squares."""
    layer.build(X.shape)
    params, rest = ([jnp.asarray(v) for v in vs] for vs in (layer.trainable_variables, layer.non_trainable_variables))

    def function(x: Any, params: Any) -> Any:
        found, _ = layer.stateless_call(params, rest, x, training=True)
        return sum((a**2).sum() for a in jax.tree.leaves(found)), found

    return jax.value_and_grad(function, (0, 1), has_aux=True), [jnp.asarray(X), params]


@pytest.mark.parametrize("name", SAME)
def test_the_numbers_are_those_of_keras(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keras.utils.set_random_seed(0)
    function, arguments = traced(SAME[name]())
    wanted = jax.tree.leaves(function(*arguments))
    calls = []
    monkeypatch.setattr(ours, "recurrent_layer", lambda *a, plain=ours.recurrent_layer: (calls.append(a), plain(*a))[1])
    with replaced(ours.recurrences()):
        found = jax.tree.leaves(function(*arguments))
    assert calls
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)


@pytest.mark.parametrize("name", OTHER)
def test_other_layers_stay_as_they_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "recurrent_layer", None)
    function, arguments = traced(OTHER[name]())
    with replaced(ours.recurrences()):
        function(*arguments)


def test_a_mask_stays_with_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "recurrent_layer", None)
    with replaced(ours.recurrences()):
        layers.LSTM(5)(jnp.asarray(X), mask=jnp.ones((3, 4), bool))
